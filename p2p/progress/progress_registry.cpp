#include "p2p/progress/progress_registry.hpp"

#include <sched.h>

#include <bit>

namespace weft::p2p {
namespace {

constexpr std::uint64_t bit(int place) noexcept { return std::uint64_t{1} << place; }

}  // namespace

bool Unattended::admit(Ongoing& ongoing) noexcept {
  if (ongoing.place_ != kNone) return true;
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  int place = kNone;
  do {
    place = std::countr_one(taken);
    if (place == kPlaces) return false;
  } while (!taken_.compare_exchange_weak(taken, taken | bit(place), std::memory_order_acquire));
  ongoing.place_ = place;
  ongoing_[static_cast<std::size_t>(place)] = &ongoing;
  return true;
}

void Unattended::clear(Ongoing& ongoing) noexcept {
  taken_.fetch_and(~bit(ongoing.place_), std::memory_order_release);
  ongoing.place_ = kNone;
}

void Unattended::leave(Ongoing& ongoing) noexcept {
  if (!admit(ongoing)) return;
  ongoing.left_ = true;
  // Who goes to sleep says so first and looks here then: one of the two sees the other.
  left_.fetch_or(bit(ongoing.place_), std::memory_order_seq_cst);
  bell_.wake_sleepers();
}

// Who moves says so first and looks then whether they are still left; their own thread takes them
// back first and looks then who moves: one of the two sees the other.
void Unattended::take_back(Ongoing& ongoing) noexcept {
  left_.fetch_and(~bit(ongoing.place_), std::memory_order_seq_cst);
  while ((moved_.load(std::memory_order_seq_cst) & bit(ongoing.place_)) != 0) sched_yield();
  ongoing.left_ = false;
}

// The same between who moves and who stops it.
void Unattended::stop() noexcept {
  stopped_.store(true, std::memory_order_seq_cst);
  while (moved_.load(std::memory_order_seq_cst) != 0) sched_yield();
}

Left Unattended::move_all(Pace pace) noexcept {
  Left all = Left::nothing;
  for (std::uint64_t left = left_.load(std::memory_order_seq_cst); left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    // Perhaps this very thread, further up: what it moves has had to wait for something.
    if ((moved_.fetch_or(bit(place), std::memory_order_seq_cst) & bit(place)) != 0) {
      all = Left::silent;
      continue;
    }
    const bool is_left = (left_.load(std::memory_order_seq_cst) & bit(place)) != 0;
    if (is_left && !stopped_.load(std::memory_order_seq_cst)) {
      const Left now = ongoing_[static_cast<std::size_t>(place)]->move(pace);
      if (now == Left::nothing)
        left_.fetch_and(~bit(place), std::memory_order_seq_cst);
      else if (all != Left::silent)
        all = now;
    }
    moved_.fetch_and(~bit(place), std::memory_order_seq_cst);
  }
  return all;
}

}  // namespace weft::p2p
