#include "base/board/recorder.hpp"

#include <algorithm>
#include <chrono>

#include "weft/deadline.hpp"

namespace weft::board {
namespace {

constexpr std::uint64_t kNoPeer = 0xffffff;

constexpr std::uint64_t whole(std::uint64_t number) noexcept { return 2 * (number + 1); }

std::uint64_t pack(Event event, int peer, std::uint64_t slot) noexcept {
  const std::uint64_t who = peer < 0 ? kNoPeer : static_cast<std::uint64_t>(peer) & kNoPeer;
  return static_cast<std::uint64_t>(event) | who << 8U | slot << 32U;
}

}  // namespace

void Recorder::write(Event event, int peer, std::uint64_t slot, std::uint64_t value) noexcept {
  const std::uint64_t number = state_.head.fetch_add(1, std::memory_order_relaxed);
  Record& cell = cells_[number & (cells_.size() - 1)];
  std::uint64_t stamp = cell.stamp.load(std::memory_order_relaxed);
  // Two threads a lap apart must not both write the cell.
  if (stamp % 2 != 0 || stamp >= whole(number) ||
      !cell.stamp.compare_exchange_strong(stamp, whole(number) - 1, std::memory_order_acq_rel)) {
    state_.lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Release stores, so that a reader that sees one of them sees that the stamp is odd.
  const auto now = Clock::now().time_since_epoch();
  cell.time.store(static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()),
                  std::memory_order_release);
  cell.what.store(pack(event, peer, slot), std::memory_order_release);
  cell.value.store(value, std::memory_order_release);
  cell.stamp.store(whole(number), std::memory_order_release);
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
    const std::uint64_t time = cell.time.load(std::memory_order_acquire);
    const std::uint64_t what = cell.what.load(std::memory_order_acquire);
    const std::uint64_t value = cell.value.load(std::memory_order_acquire);
    if (before != whole(number) || cell.stamp.load(std::memory_order_relaxed) != before) {
      ++recording.unreadable;
      continue;
    }
    const std::uint64_t peer = what >> 8U & kNoPeer;
    recording.events.push_back({.number = number,
                                .time_ns = time,
                                .event = static_cast<Event>(what & 0xff),
                                .peer = peer == kNoPeer ? -1 : static_cast<int>(peer),
                                .slot = static_cast<std::uint32_t>(what >> 32U),
                                .value = value});
  }
  return recording;
}

}  // namespace weft::board
