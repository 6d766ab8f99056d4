// Handles of arrivals, for slots and for readers of published ones.
#pragma once

#include <memory>

#include "bindings/c/call.hpp"

namespace weft::c {

/// A handle that is made before the wait, so that a failed allocation loses no tensor.
class NewArrival {
 public:
  explicit NewArrival(weft_world& world);
  /// Gives the handle out if `result` has an arrival, and counts it in `held`.
  weft_code take(Result<Arrival> result, int& held, weft_arrival*& out) noexcept;

 private:
  std::unique_ptr<weft_arrival> handle_;
};

}  // namespace weft::c
