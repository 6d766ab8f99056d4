#include "base/stats/waits.hpp"

#include "base/stats/packed.hpp"

namespace weft::stats {

std::uint64_t pack(const WaitAbout& about) noexcept {
  return pack(static_cast<std::uint8_t>(about.operation), about.peer) |
         static_cast<std::uint64_t>(about.executor) << 32U |
         static_cast<std::uint64_t>(about.more) << 40U;
}

WaitEntry* Waits::show(const WaitAbout& about, Clock::time_point since,
                       Clock::time_point until) noexcept {
  for (WaitEntry& entry : entries_) {
    if (entry.taken.load(std::memory_order_relaxed) != 0 ||
        entry.taken.exchange(1, std::memory_order_acquire) != 0)
      continue;
    entry.what.store(pack(about), std::memory_order_release);
    entry.slot.store(about.slot, std::memory_order_release);
    entry.sequence.store(about.sequence, std::memory_order_release);
    entry.until.store(ns_of(until), std::memory_order_release);
    entry.since.store(about.since_ns == 0 ? ns_of(since) : about.since_ns,
                      std::memory_order_release);
    return &entry;
  }
  return nullptr;
}

void Waits::end(WaitEntry* entry, const WaitAbout& about, Clock::time_point since) noexcept {
  if (entry != nullptr) {
    entry->since.store(0, std::memory_order_release);
    entry->taken.store(0, std::memory_order_release);
  }
  if (Clock::now() - since < kLong) return;
  recorder_.control({.event = Event::waited,
                     .operation = about.operation,
                     .peer = about.peer,
                     .slot = about.slot,
                     .value = about.sequence,
                     .started_ns = ns_of(since)});
}

}  // namespace weft::stats
