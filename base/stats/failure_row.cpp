#include "base/stats/failure_row.hpp"

#include "base/stats/packed.hpp"
#include "base/stats/recorder.hpp"
#include "weft/deadline.hpp"

namespace weft::stats {

void FailureRow::show(const FailureAbout& about) noexcept {
  for (FailureEntry& entry : stats_->failures()) {
    if (entry_ != nullptr) break;
    if (entry.taken.load(std::memory_order_relaxed) == 0 &&
        entry.taken.exchange(1, std::memory_order_acquire) == 0)
      entry_ = &entry;
  }
  if (entry_ == nullptr) return;
  const bool is_first = entry_->since.load(std::memory_order_relaxed) == 0;
  entry_->what.store(pack(static_cast<std::uint8_t>(about.operation), about.peer) |
                         static_cast<std::uint64_t>(about.code) << 40U,
                     std::memory_order_release);
  entry_->slot.store(about.slot, std::memory_order_release);
  entry_->sequence.store(about.sequence, std::memory_order_release);
  entry_->count.store(is_first ? 1 : entry_->count.load(std::memory_order_relaxed) + 1,
                      std::memory_order_release);
  entry_->text.set(about.text);
  if (is_first) entry_->since.store(ns_of(Clock::now()), std::memory_order_release);
}

void FailureRow::clear() noexcept {
  if (entry_ == nullptr) return;
  entry_->since.store(0, std::memory_order_release);
  entry_->taken.store(0, std::memory_order_release);
  entry_ = nullptr;
}

}  // namespace weft::stats
