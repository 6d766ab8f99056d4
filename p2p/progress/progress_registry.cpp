#include "p2p/progress/progress_registry.hpp"

#include <sched.h>

#include <bit>

namespace weft::p2p {
namespace {

constexpr std::uint64_t bit(int place) noexcept { return std::uint64_t{1} << place; }

}  // namespace

bool ProgressRegistry::admit(Progressable& operations) noexcept {
  if (operations.place_ != kNone) return true;
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  int place = kNone;
  do {
    place = std::countr_one(taken);
    if (place == kPlaces) return false;
  } while (!taken_.compare_exchange_weak(taken, taken | bit(place), std::memory_order_acquire));
  operations.place_ = place;
  entries_[static_cast<std::size_t>(place)] = &operations;
  return true;
}

void ProgressRegistry::clear(Progressable& operations) noexcept {
  taken_.fetch_and(~bit(operations.place_), std::memory_order_release);
  operations.place_ = kNone;
}

void ProgressRegistry::leave(Progressable& operations) noexcept {
  if (!admit(operations)) return;
  operations.left_ = true;
  // A thread that goes to sleep announces that first and then reads `left_`; this thread sets
  // `left_` first and then reads the sleepers. So one of the two sees the other.
  left_.fetch_or(bit(operations.place_), std::memory_order_seq_cst);
  bell_.wake_sleepers();
}

// A thread that progresses operations sets `moved_` first and then reads `left_`; their owner
// clears `left_` first and then reads `moved_`. So one of the two sees the other.
void ProgressRegistry::take_back(Progressable& operations) noexcept {
  left_.fetch_and(~bit(operations.place_), std::memory_order_seq_cst);
  while ((moved_.load(std::memory_order_seq_cst) & bit(operations.place_)) != 0) sched_yield();
  operations.left_ = false;
}

// `moved_` and `stopped_` pair up in the same way.
void ProgressRegistry::stop() noexcept {
  stopped_.store(true, std::memory_order_seq_cst);
  while (moved_.load(std::memory_order_seq_cst) != 0) sched_yield();
}

ProgressResult ProgressRegistry::progress_all(bool may_block) noexcept {
  ProgressResult all = ProgressResult::done;
  for (std::uint64_t left = left_.load(std::memory_order_seq_cst); left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    // This very thread may be progressing it, further up the stack: progress() had to wait for
    // something.
    if ((moved_.fetch_or(bit(place), std::memory_order_seq_cst) & bit(place)) != 0) {
      all = ProgressResult::needs_poll;
      continue;
    }
    const bool is_left = (left_.load(std::memory_order_seq_cst) & bit(place)) != 0;
    if (is_left && !stopped_.load(std::memory_order_seq_cst)) {
      const ProgressResult now = entries_[static_cast<std::size_t>(place)]->progress(may_block);
      if (now == ProgressResult::done)
        left_.fetch_and(~bit(place), std::memory_order_seq_cst);
      else if (all != ProgressResult::needs_poll)
        all = now;
    }
    moved_.fetch_and(~bit(place), std::memory_order_seq_cst);
  }
  return all;
}

}  // namespace weft::p2p
