#include "base/stats/recorder.hpp"

#include <algorithm>

#include "base/stats/packed.hpp"

namespace weft::stats {

void write_words(Record& record, const RecordedEvent& event) noexcept {
  // Release stores: a reader that sees one of these values also sees the odd stamp.
  record.started.store(event.started_ns, std::memory_order_release);
  record.ended.store(event.ended_ns, std::memory_order_release);
  record.what.store(pack(static_cast<std::uint8_t>(event.event), event.peer) |
                        static_cast<std::uint64_t>(event.operation) << 32U |
                        static_cast<std::uint64_t>(event.code) << 40U,
                    std::memory_order_release);
  record.slot.store(event.slot, std::memory_order_release);
  record.value.store(event.value, std::memory_order_release);
  record.bytes.store(event.bytes, std::memory_order_release);
  record.thread.store(event.thread, std::memory_order_release);
}

void Recorder::write(const Span& span) noexcept {
  const std::uint64_t number = state_.head.fetch_add(1, std::memory_order_relaxed);
  Record& cell = cells_[number & (cells_.size() - 1)];
  std::uint64_t stamp = cell.stamp.load(std::memory_order_relaxed);
  // Two threads that are one lap apart must not both write the cell.
  if (stamp % 2 != 0 || stamp >= whole_stamp(number) ||
      !cell.stamp.compare_exchange_strong(stamp, whole_stamp(number) - 1,
                                          std::memory_order_acq_rel)) {
    state_.lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t now = ns_of(Clock::now());
  write_words(cell, {.number = number,
                     .started_ns = span.started_ns == 0 ? now : span.started_ns,
                     .ended_ns = now,
                     .event = span.event,
                     .operation = span.operation,
                     .code = span.code,
                     .peer = span.peer,
                     .slot = span.slot,
                     .value = span.value,
                     .bytes = span.bytes,
                     .thread = span.thread});
  cell.stamp.store(whole_stamp(number), std::memory_order_release);
}

Recording RecorderView::last(std::size_t most) const {
  Recording recording;
  const std::uint64_t head = state_.head.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>(head, cells_.size());
  recording.begun = head;
  recording.overwritten = head - kept;
  const std::uint64_t wanted = std::min<std::uint64_t>(most, kept);
  recording.events.reserve(wanted);
  for (std::uint64_t number = head - wanted; number < head; ++number) {
    const Record& cell = cells_[number & (cells_.size() - 1)];
    const std::uint64_t before = cell.stamp.load(std::memory_order_acquire);
    const std::uint64_t what = cell.what.load(std::memory_order_acquire);
    const RecordedEvent event{.number = number,
                              .started_ns = cell.started.load(std::memory_order_acquire),
                              .ended_ns = cell.ended.load(std::memory_order_acquire),
                              .event = static_cast<Event>(kind_in(what)),
                              .operation = static_cast<Operation>(what >> 32U & 0xff),
                              .code = static_cast<Code>(what >> 40U & 0xff),
                              .peer = peer_in(what),
                              .slot = cell.slot.load(std::memory_order_acquire),
                              .value = cell.value.load(std::memory_order_acquire),
                              .bytes = cell.bytes.load(std::memory_order_acquire),
                              .thread = cell.thread.load(std::memory_order_acquire)};
    if (before == whole_stamp(number) && cell.stamp.load(std::memory_order_relaxed) == before)
      recording.events.push_back(event);
    else
      ++recording.unreadable;
  }
  return recording;
}

}  // namespace weft::stats
