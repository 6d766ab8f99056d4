// Gets: READs that are posted as there is room, and asked for their end; no call waits.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/fail.hpp"
#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
namespace {

/// Longer than any queue pair takes to fail: 8 tries of 8.6 s each, doubled by some devices.
constexpr std::chrono::seconds kLongest{140};
/// How long a path that was given up may take to flush what was under way.
constexpr std::chrono::seconds kFlush{2};

}  // namespace

/// One chain of them.
struct VerbsChannel::Reads {
  std::array<ibv_send_wr, kReadsAtOnce> works;
  std::array<ibv_sge, kReadsAtOnce> places;
  std::uint32_t count = 0;
  std::size_t piece = 0;  ///< behind them
  std::uint64_t done = 0;
};

void VerbsChannel::get(Get& get) noexcept {
  get.engine = this;
  get.piece = 0;
  get.done = 0;
  get.number = 0;
  get.end = {};
  get.is_over.store(false, std::memory_order_relaxed);
  get.asked = false;
  if (!is_open()) {
    get.end = broken("get");
    return get.is_over.store(true, std::memory_order_release);
  }
  get.since = Clock::now();
  get.left = 0;
  post_reads(get);
}

/// The queue pair of the main link that it goes by, and how often that link was lost before. False:
/// there is none now.
bool VerbsChannel::choose_pair(Get& get) noexcept {
  const std::uint32_t place =
      next_read_.fetch_add(1, std::memory_order_relaxed) % static_cast<std::uint32_t>(per_link_);
  for (std::size_t main = main_pair(); main != kNoPair;) {
    const std::uint32_t losses = failover_.losses[main / per_link_].load();
    get.left = losses << kGetShift | static_cast<std::uint32_t>(main + place);
    // A link that is lost stops being the main one before it is counted.
    const std::size_t now = failover_.base.load();
    if (now == main) return true;
    main = now;
  }
  return false;
}

/// Its link was lost since: what was under way there is read again.
bool VerbsChannel::is_lost(const Get& get) const noexcept {
  const std::size_t link = pair_of(get) / per_link_;
  return several_ && (failover_.losses[link].load() & kGetLosses) != get.left >> kGetShift;
}

/// By the main link, from the start: once nothing of the lost one can write there any more. False:
/// not now.
bool VerbsChannel::begin_again(Get& get) noexcept {
  if (get.asked || has_failed() || main_pair() == kNoPair) return false;
  if (get.number != 0 && !pairs_[pair_of(get)]->has_ended(get.number)) return false;
  get.piece = 0;
  get.done = 0;
  get.number = 0;
  get.since = Clock::now();
  post_reads(get);
  return true;
}

/// Takes pieces up to `end`, as many as one chain holds. False: the get has ended.
bool VerbsChannel::gather_reads(Get& get, std::size_t end, Reads& reads) noexcept {
  const Rail& rail = *links_[pair_of(get) / per_link_].rail;
  const std::uint64_t most = rail.device->limits().max_message;
  reads.piece = get.piece;
  reads.done = get.done;
  for (reads.count = 0; reads.count < kReadsAtOnce && reads.piece < end; ++reads.count) {
    const GetWork& piece = get.pieces[reads.piece];
    RemoteMemory from = piece.from;
    if (!reach_by(pair_of(get) / per_link_, from)) {
      get.end = broken("get");
      return false;
    }
    const auto key = rail.regions->local_key(piece.to, piece.bytes);
    if (!key.ok()) {
      get.end = key.status();
      return false;
    }
    const std::uint64_t bytes = std::min<std::uint64_t>(piece.bytes - reads.done, most);
    reads.places[reads.count] = {reinterpret_cast<std::uint64_t>(piece.to + reads.done),
                                 static_cast<std::uint32_t>(bytes), *key};
    ibv_send_wr& read = reads.works[reads.count];
    read = {};
    read.opcode = IBV_WR_RDMA_READ;
    read.sg_list = &reads.places[reads.count];
    read.num_sge = bytes == 0 ? 0 : 1;
    read.wr.rdma.remote_addr = from.address + reads.done;
    read.wr.rdma.rkey = from.key;
    if (reads.count > 0) reads.works[reads.count - 1].next = &read;
    reads.done += bytes;
    if (reads.done == piece.bytes) {
      ++reads.piece;
      reads.done = 0;
    }
  }
  return true;
}

/// Posts what there is room for. The last piece may prove that those before it were whole: it is
/// not fetched ahead of them. Not by a fence: a fenced READ that gets lost is never sent again by
/// rdma_rxe.
void VerbsChannel::post_reads(Get& get) noexcept {
  if (get.number == 0 && !choose_pair(get)) return rank_.rails.schedule_poll();
  QueuePair& pair = *pairs_[pair_of(get)];
  while (get.end.ok() && get.piece < get.pieces.size()) {
    const std::size_t last = get.pieces.size() - 1;
    if (get.piece == last && get.done == 0 && get.number != 0 && !pair.has_ended(get.number))
      return pair.ask_for_completion();
    const std::size_t end = get.piece < last ? last : get.pieces.size();
    Reads reads;
    if (!gather_reads(get, end, reads)) return;
    const std::lock_guard lock(pair.mutex());
    if (has_failed()) return;
    if (!pair.has_room_for(reads.count, 0)) return rank_.rails.schedule_poll();
    const int error = pair.post(reads.works.data(), reads.count, 0, true);
    if (error == ENOMEM) return rank_.rails.schedule_poll();
    get.number = pair.posted();  // where it failed, too, some of them may be read yet
    if (error != 0) {
      get.end = give_up(error);
      return;
    }
    get.piece = reads.piece;
    get.done = reads.done;
  }
  pair.ask_for_completion();
}

std::optional<Status> VerbsChannel::poll_get(Get& get) noexcept {
  if (get.is_over.load(std::memory_order_acquire)) return get.end;
  if (is_lost(get) && begin_again(get)) return std::nullopt;
  QueuePair& pair = *pairs_[pair_of(get)];
  if (get.number != 0 && !pair.has_ended(get.number)) {
    pair.ask_for_completion();
    rank_.rails.poll();
    if (!pair.has_ended(get.number)) {
      if (get.since + kLongest > Clock::now() || has_failed()) return std::nullopt;
      fail_read(get);
      return std::nullopt;
    }
  }
  const bool was_lost = is_lost(get);
  const bool all = !was_lost && (get.number == 0 || pair.has_succeeded(get.number));
  if (get.end.ok() && !(was_lost && get.asked)) {
    if (has_failed()) {
      if (!all || get.piece < get.pieces.size()) get.end = broken("get");
    } else if (!all) {
      return std::nullopt;  // why is known soon
    } else if (get.piece < get.pieces.size() && !get.asked) {
      post_reads(get);
      return std::nullopt;
    }
  }
  if (get.asked && get.end.ok() && (was_lost || get.piece < get.pieces.size()))
    get.end = broken("get");
  if (get.gpu_flushes != nullptr && get.end.ok() && !flush_gpu(pair_of(get), *get.gpu_flushes))
    get.end = broken("get");
  get.is_over.store(true, std::memory_order_release);
  return get.end;
}

bool VerbsChannel::cancel_get(Get& get) noexcept {
  get.asked = true;  // no more of it
  return get.is_over.load() || get.number == 0 || pairs_[pair_of(get)]->has_ended(get.number);
}

void VerbsChannel::fail_read(const Get& get) noexcept {
  fail(refuse(Code::path_failed, [&] {
    return ErrorDetail{
        .code = Code::path_failed,
        .operation = "get",
        .message = fmt::format(
            "{}: a read from rank {} has not ended in {} s", near().device->name(), peer_,
            std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - get.since).count()),
        .hint = "is the device alive? WEFT_IB_TIMEOUT bounds it",
        .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("get"));
}

void VerbsChannel::abort_get(Get& get) noexcept {
  if (cancel_get(get)) return;
  fail_read(get);
  // A NIC that works flushes at once.
  const auto until = Clock::now() + kFlush;
  while (!pairs_[pair_of(get)]->has_ended(get.number) && Clock::now() < until) rank_.rails.help();
}

}  // namespace weft::p2p::verbs
