#include "p2p/transport/sim/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/mix64.hpp"

namespace weft::p2p::sim {

void Scheduler::push(Time when, Action act, const std::uint64_t* round) {
  heap_.push_back({std::max(when, now_), random_.next(), next_number_++, round,
                   round == nullptr ? 0 : *round, std::move(act)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool Scheduler::step() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Event next = std::move(heap_.back());
    heap_.pop_back();
    if (next.round != nullptr && *next.round != next.expected) continue;
    now_ = next.when;
    ++events_;
    next.act();
    return true;
  }
  return false;
}

void Scheduler::note(std::string_view what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const auto mix = [this](std::uint64_t value) {
    trace_ = fnv1a(trace_, value);
    trace_ ^= trace_ >> 29U;
  };
  mix(static_cast<std::uint64_t>(passed().count()));
  for (const char letter : what) mix(static_cast<std::uint64_t>(letter));
  mix(a);
  mix(b);
  mix(c);
  if (print_) fmt::print(stderr, "{:>12} ns  {:<9} {} {} {}\n", passed().count(), what, a, b, c);
}

}  // namespace weft::p2p::sim
