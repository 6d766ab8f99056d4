#include "p2p/transport/reading.hpp"

#include <algorithm>
#include <new>

namespace weft::p2p {

void Strays::keep(std::unique_ptr<Reading> reading, std::uint64_t owner) noexcept {
  if (reading->get.cancel()) return;
  const std::lock_guard lock(mutex_);
  try {
    strays_.reserve(strays_.size() + 1);
  } catch (const std::bad_alloc&) {
    (void)reading.release();  // on purpose: what a NIC may write is never freed
    return;
  }
  strays_.push_back({std::move(reading), owner});
  count_.store(strays_.size(), std::memory_order_release);
}

bool Strays::look_for(std::uint64_t owner) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(strays_, [](const Stray& stray) { return stray.reading->get.poll().has_value(); });
  count_.store(strays_.size(), std::memory_order_release);
  return std::ranges::any_of(strays_, [owner](const Stray& s) { return s.owner == owner; });
}

void Strays::cut_off(std::uint64_t owner) noexcept {
  if (!hold(owner)) return;
  const std::lock_guard lock(mutex_);
  for (const Stray& stray : strays_)
    if (stray.owner == owner && stray.reading->is_bare) stray.reading->get.abort();
}

}  // namespace weft::p2p
