// Where all ranks of a job wait for each other, made of slots alone: so it also works where ranks
// take turns on one thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/conformance/check.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

/// Every rank of the job makes one, with the same name. One thread.
class Meeting {
 public:
  explicit Meeting(World& world, const std::string& name = "meeting");

  /// Returns once every rank has called it as often. Throws when one does not come.
  void wait();
  /// Lets others go on for about `span`.
  void pause(std::chrono::nanoseconds span) noexcept;
  /// Looks until `holds` does, for at most `limit`.
  template <typename Condition>
  bool soon(Condition&& holds, std::chrono::nanoseconds limit = std::chrono::seconds(10)) {
    const auto end = Deadline::after(limit);
    while (!holds()) {
      if (end.passed()) return false;
      pause(std::chrono::microseconds(200));
    }
    return true;
  }

 private:
  struct Step {  ///< of the dissemination: a signal from one rank, one to another
    Slot from;
    RemoteSlot to;
  };

  Check check_;
  Slot silent_;  ///< nobody ever puts into it
  Tensor signal_;
  std::vector<Step> steps_;
  std::int64_t count_ = 0;
};

}  // namespace weft::conformance
