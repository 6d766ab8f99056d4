#include "base/clock.hpp"

#include <utility>

namespace weft {
namespace {

thread_local const ClockSource* clock_source = nullptr;

}  // namespace

Clock::time_point Clock::now() noexcept {
  return clock_source == nullptr ? std::chrono::steady_clock::now() : clock_source->now();
}

const ClockSource* set_clock_source(const ClockSource* source) noexcept {
  return std::exchange(clock_source, source);
}

}  // namespace weft
