// A barrier of all ranks of a job that is made of slots alone, so that it also works where ranks
// take turns on one thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/conformance/check.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

/// Every rank of the job constructs one with the same name. For use by one thread.
class Meeting {
 public:
  explicit Meeting(World& world, const std::string& name = "meeting");

  /// Returns once every rank has made the same number of calls. Throws if one does not.
  void wait();
  /// Lets other ranks run for about `span`.
  void pause(std::chrono::nanoseconds span) noexcept;
  /// Polls until `holds` returns true, for at most `limit`.
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
  Slot silent_;  ///< no rank puts into it
  Tensor signal_;
  std::vector<Step> steps_;
  std::int64_t count_ = 0;
};

}  // namespace weft::conformance
