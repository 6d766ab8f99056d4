// The time source of weft's clock, replaceable by tests.
#pragma once

#include "weft/deadline.hpp"

namespace weft {

/// A source of time other than the machine, such as a simulation.
class ClockSource {
 public:
  virtual ~ClockSource() = default;
  virtual Clock::time_point now() const noexcept = 0;
};

/// Makes this thread's Clock::now() ask `source`, which must live until another is set; null
/// restores the machine's time. Returns the previous source. Other threads keep their time.
const ClockSource* set_clock_source(const ClockSource* source) noexcept;

}  // namespace weft
