// Arrivals: the peer's notifications, its messages, and its words about links.
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "base/fail.hpp"
#include "p2p/transport/verbs/revival.hpp"
#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
namespace {

bool is_fence(std::uint32_t immediate) noexcept { return immediate == Immediate::kFence; }
/// Whether it goes in order, as all but shares does.
bool is_in_order(std::uint32_t immediate) noexcept {
  return immediate == Immediate::kAck ||
         (!is_fence(immediate) && !Immediate::of(immediate).in_pieces);
}

}  // namespace

void VerbsChannel::notified(int queue_pair, std::uint32_t immediate) noexcept {
  std::uint32_t speaks_for = 0;
  if (several_) [[unlikely]] {
    if (is_in_order(immediate))
      count_ordered(queue_pair);
    else if (queue_pair == failover_.speaker.load())
      speaks_for = failover_.spoken_for.load();
  }
  take(queue_pair, immediate, speaks_for);
}

/// One thread at a time counts those of a place: the peer's main link moves only when both ends
/// have drained the one before.
void VerbsChannel::count_ordered(int queue_pair) noexcept {
  auto& seen = failover_.seen[static_cast<std::size_t>(queue_pair) % per_link_];
  seen.store(seen.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

[[gnu::always_inline]] inline void VerbsChannel::take(int queue_pair, std::uint32_t immediate,
                                                      std::uint32_t speaks_for) noexcept {
  if (is_fence(immediate) || immediate == Immediate::kAck) return;
  const Immediate put = Immediate::of(immediate);
  if (stats::Counter* const flushes = expected_.gpu_flushes(put.index)) [[unlikely]]
    if (!flush_gpu(static_cast<std::size_t>(queue_pair), *flushes)) return;
  const auto arrival = put.in_pieces ? arrived(put, queue_pair, speaks_for)
                                     : expected_.arrived(put.index, put.low_bits());
  if (arrival == NotificationTable::Arrival::set || arrival == NotificationTable::Arrival::partly)
    return;
  // A rank that goes closes its slots before everybody has heard of it.
  if (arrival == NotificationTable::Arrival::unknown) {
    rank_.local.log->debug(Subsystem::path, "rank {} has put into a slot that is gone", peer_);
    return;
  }
  fail(refuse(Code::system, [&] {
    return ErrorDetail{.code = Code::system,
                       .operation = "put",
                       .message = fmt::format("rank {} has put out of turn (immediate {:#010x})",
                                              peer_, immediate),
                       .hint = "this is a defect of weft: please report it with WEFT_LOG=debug",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
}

[[gnu::cold]] bool VerbsChannel::flush_gpu(std::size_t queue_pair,
                                           stats::Counter& flushes) noexcept {
  GpuRegions* const gpu = link_of(queue_pair).rail->regions->gpu();
  if (gpu == nullptr || gpu->flush(flushes)) return true;
  fail(refuse(Code::system, [&] {
    return ErrorDetail{
        .operation = "put",
        .message =
            fmt::format("what rank {} has written to a GPU of this rank can't be flushed", peer_),
        .hint = "check nvidia-smi, and the kernel's log; WEFT_GDR_LEVEL=never does without",
        .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
  return false;
}

NotificationTable::Arrival VerbsChannel::arrived(const Immediate& put, int queue_pair,
                                                 std::uint32_t speaks_for) noexcept {
  for (std::size_t i = 0; speaks_for != 0 && i < pairs_.size(); ++i)
    if ((speaks_for >> (i / per_link_) & 1U) != 0)
      (void)expected_.piece_arrived(put.index, put.low_bits(), static_cast<int>(i));
  return expected_.piece_arrived(put.index, put.low_bits(), queue_pair);
}

void VerbsChannel::message(int queue_pair, std::span<const std::byte> bytes) noexcept {
  MessageHead head;
  if (bytes.size() < sizeof head) return;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.kind == MessageHead::Kind::link)
    return on_link_message(queue_pair, bytes.subspan(sizeof head));
  if (several_) count_ordered(queue_pair);
  try {
    inbox_.add(head, bytes.subspan(sizeof head));
    rank_.has_message(peer_);
  } catch (const std::bad_alloc&) {
    out_of_memory("what it sends");
  }
}

void VerbsChannel::on_link_message(int queue_pair, std::span<const std::byte> bytes) noexcept {
  const auto message = parse<LinkMessage>(bytes);
  if (!message || !several_) return refuse_words({});
  const std::size_t link = message->link;
  if (link >= links_.size() || message->pair >= per_link_) return refuse_words(*message);
  if (message->is_at_once == 0) count_ordered(queue_pair);
  {
    const std::lock_guard lock(outbox_.mutex);
    LinkRecord& record = failover_.links[link];
    const bool is_of_now = message->generation == record.state.generation();
    // Before another thread may see that it has settled, and begin it anew.
    if (message->type == LinkMessage::Type::settled && !count_all(*message))
      return refuse_words(*message);
    if (!record.state.hear(message->type, message->generation)) return refuse_words(*message);
    if (message->type == LinkMessage::Type::down && is_of_now) {
      record.handled = message->handled;
      record.ordered = message->ordered;
    }
    if (message->type == LinkMessage::Type::again) record.peer = message->pairs;
  }
  const std::uint32_t bit = 1U << link;
  switch (message->type) {
    case LinkMessage::Type::resent: {
      const std::size_t pair = link * per_link_ + message->pair;
      take(static_cast<int>(pair), message->immediate, message->speaks_for);
      Revival(*pairs_[pair]).count_resent();
      return;
    }
    case LinkMessage::Type::settled:
      failover_.spoken_for.fetch_or(bit);
      failover_.speaker.store(queue_pair);
      break;
    case LinkMessage::Type::resumed:
      failover_.spoken_for.fetch_and(~bit);
      failover_.speaker.store(queue_pair);
      return;
    default:
      break;
  }
  rank_.tend(peer_);
}

/// All that the main link carried besides shares has come by another one.
bool VerbsChannel::count_all(const LinkMessage& message) noexcept {
  for (std::size_t k = 0; k < per_link_; ++k)
    if (!Revival(*pairs_[message.link * per_link_ + k]).count_all(message.handled[k])) return false;
  return true;
}

void VerbsChannel::refuse_words(const LinkMessage& message) noexcept {
  fail(refuse(Code::system, [&] {
    return ErrorDetail{.operation = "path",
                       .message = fmt::format(
                           "rank {} has told nonsense about rail {} ({}, {})", peer_, message.link,
                           static_cast<std::uint32_t>(message.type), message.generation),
                       .hint = "this is a defect of weft: please report it with WEFT_LOG=debug",
                       .peer = peer_};
  }));
  rank_.path_failed(peer_, broken("path"));
}

}  // namespace weft::p2p::verbs
