// How puts and gets end.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "p2p/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
namespace {

/// Longer than any queue pair takes to fail: 8 tries of 8.6 s each, doubled by some devices.
constexpr std::chrono::seconds kLongest{140};

}  // namespace

template <typename Ask>
bool VerbsChannel::all_pairs(std::uint64_t posted, const Ask& ask) noexcept {
  const std::uint64_t pair = posted >> kPairShift;
  const std::uint64_t number = posted & ((std::uint64_t{1} << kPairShift) - 1);
  if (pair != kAllPairs) return ask(*pairs_[pair - 1], number);
  Stripe ends{};
  {
    const std::lock_guard lock(stripes_mutex_);
    // A place is taken again once all that it stood for has ended, and that well: with the first
    // failure puts come to an end.
    if (next_stripe_ > number + stripes_.size()) return true;
    ends = stripes_[number % stripes_.size()];
  }
  bool all = true;
  for (std::size_t i = 0; i < pairs_.size(); ++i) all = ask(*pairs_[i], ends[i]) && all;
  return all;
}

bool VerbsChannel::has_ended(std::uint64_t posted) noexcept {
  return all_pairs(posted, [](QueuePair& pair, std::uint64_t request) {
    return pair.has_ended(request & ~kCutShort);
  });
}

std::optional<Status> VerbsChannel::outcome(std::uint64_t posted) noexcept {
  const auto has_succeeded = [](QueuePair& pair, std::uint64_t request) {
    return (request & kCutShort) == 0 && pair.has_succeeded(request);
  };
  if (all_pairs(posted, has_succeeded)) return Status{};
  // Of a queue pair in error, too: what ended there without a completion shows by the next one.
  all_pairs(posted, [](QueuePair& pair, std::uint64_t request) {
    if (!pair.has_ended(request)) pair.ask_for_completion();
    return true;
  });
  if (has_failed()) {
    // Not before the NIC has let go of the memory.
    flush();
    rank_.completions.look();
    if (!has_ended(posted)) return std::nullopt;
    return all_pairs(posted, has_succeeded) ? Status{} : broken("put");
  }
  rank_.completions.poll();
  if (all_pairs(posted, has_succeeded)) return Status{};
  return std::nullopt;
}

Status VerbsChannel::post_reads(QueuePair& pair, std::span<const GetWork> pieces,
                                std::uint64_t& last) noexcept {
  const std::uint64_t most = rank_.device.limits().max_message;
  constexpr std::uint32_t kBatch = 8;
  std::array<ibv_send_wr, kBatch> reads;
  std::array<ibv_sge, kBatch> places;
  std::size_t next = 0;
  std::uint64_t done = 0;  // of that piece
  while (next < pieces.size()) {
    std::uint32_t count = 0;
    for (; count < kBatch && next < pieces.size(); ++count) {
      const GetWork& piece = pieces[next];
      const auto key = rank_.regions.local_key(piece.to, piece.bytes);
      if (!key.ok()) return key.status();
      const std::uint64_t bytes = std::min<std::uint64_t>(piece.bytes - done, most);
      places[count] = {reinterpret_cast<std::uint64_t>(piece.to + done),
                       static_cast<std::uint32_t>(bytes), *key};
      ibv_send_wr& read = reads[count];
      read = {};
      read.opcode = IBV_WR_RDMA_READ;
      read.sg_list = &places[count];
      read.num_sge = bytes == 0 ? 0 : 1;
      read.wr.rdma.remote_addr = piece.from.address + done;
      read.wr.rdma.rkey = piece.from.key;
      if (count > 0) reads[count - 1].next = &read;
      done += bytes;
      if (done == piece.bytes) {
        ++next;
        done = 0;
      }
    }
    for (;;) {
      {
        const std::lock_guard lock(pair.mutex());
        if (has_failed()) return broken("get");
        if (pair.has_room_for(count, 0)) {
          const int error = pair.post(reads.data(), count, 0, true);
          if (error == 0) {
            last = pair.posted();
            break;
          }
          if (error != ENOMEM) {
            last = pair.posted();  // some of them may be read yet
            return give_up(error);
          }
        }
      }
      rank_.completions.help();
    }
  }
  return {};
}

Status VerbsChannel::get(std::span<const GetWork> pieces) noexcept {
  if (!is_open()) return broken("get");
  const std::size_t chosen = next_read_.fetch_add(1, std::memory_order_relaxed) % pairs_.size();
  QueuePair& pair = *pairs_[chosen];
  // The last piece may prove that those before it were whole: it is not fetched ahead of them. Not
  // by a fence: a fenced READ that gets lost is never sent again by rdma_rxe.
  const std::size_t alone = pieces.size() > 1 ? 1 : 0;
  const Status status = read(pair, pieces.first(pieces.size() - alone));
  return alone == 0 || !status.ok() ? status : read(pair, pieces.last(1));
}

Status VerbsChannel::read(QueuePair& pair, std::span<const GetWork> pieces) noexcept {
  std::uint64_t last = 0;
  Status status = post_reads(pair, pieces, last);
  if (last == 0) return status;
  pair.ask_for_completion();
  const auto ended = [&] {
    if (!pair.has_ended(last)) pair.ask_for_completion();
    return pair.has_ended(last);
  };
  const auto never = [] { return false; };
  if (rank_.local.waiter.wait(ended, never, Deadline::after(kLongest)) != WaitEnd::ready) {
    fail(Status(
        ErrorDetail{.code = Code::path_failed,
                    .operation = "get",
                    .message = fmt::format("{}: a read from rank {} has not ended in {} s",
                                           rank_.device.name(), peer_, kLongest.count()),
                    .hint = "is the device alive? WEFT_IB_TIMEOUT and WEFT_IB_RETRY bound it",
                    .peer = peer_}));
    rank_.path_failed(peer_, broken("get"));
    (void)rank_.local.waiter.wait(ended, never, Deadline::after(kLongest));
  }
  if (!status.ok() || pair.has_succeeded(last)) return status;
  // Why is known soon.
  const auto is_known = [this] { return has_failed(); };
  (void)rank_.local.waiter.wait(is_known, never, Deadline::after(kLongest));
  return broken("get");
}

}  // namespace weft::p2p::verbs
