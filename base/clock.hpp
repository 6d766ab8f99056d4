// Where weft's clock gets its time from.
#pragma once

#include "weft/deadline.hpp"

namespace weft {

/// A time other than the machine's: a simulation's.
class ClockSource {
 public:
  virtual ~ClockSource() = default;
  virtual Clock::time_point now() const noexcept = 0;
};

/// From now on this thread's Clock::now() asks `source`, which must live until another is set; null
/// gives the machine's time back. Returns the one before. Other threads keep their time.
const ClockSource* set_clock_source(const ClockSource* source) noexcept;

}  // namespace weft
