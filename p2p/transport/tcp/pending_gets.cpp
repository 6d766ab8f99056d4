#include "p2p/transport/tcp/pending_gets.hpp"

#include <algorithm>

namespace weft::p2p::tcp {

bool PendingGets::has_room() const noexcept {
  const std::lock_guard lock(mutex_);
  return unwanted_ < kMostUnwanted;
}

void PendingGets::add(Get& get) {
  const std::lock_guard lock(mutex_);
  if (++next_ == 0) ++next_;
  get.number = next_;
  gets_.push_back(&get);
}

bool PendingGets::cancel(Get& get) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::erase(gets_, &get) == 0) return false;
  unwanted_ += get.left;
  return true;
}

Get* PendingGets::find(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(gets_, number, &Get::number);
  return found == gets_.end() ? nullptr : *found;
}

void PendingGets::answered(std::uint64_t number, bool whole) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(gets_, number, &Get::number);
  if (found == gets_.end()) {
    if (unwanted_ != 0) --unwanted_;
    return;
  }
  Get& get = **found;
  get.whole = get.whole && whole;
  if (--get.left > 0) return;
  for (; get.piece < get.pieces.size() && get.done == get.pieces[get.piece].bytes; ++get.piece)
    get.done = 0;
  get.whole = get.whole && get.piece == get.pieces.size();
  gets_.erase(found);
  get.is_over.store(true, std::memory_order_release);  // from now on it may be gone
}

}  // namespace weft::p2p::tcp
