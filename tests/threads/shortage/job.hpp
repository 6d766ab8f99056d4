// A job of two ranks, in a process of its own, in which allocations fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/threads/shortage/failing_allocator.hpp"

namespace weft::tests {

struct ShortageJob {
  std::string fabric;    // as WEFT_FABRIC
  std::string workload;  // as make_workload()
  Shortage shortage{};
};

struct ShortageOutcome {
  std::string broken;  // why the process ended in no orderly way, and the stack of the failed
                       // allocation; empty if it did
  std::uint64_t allocations = 0;  // counted in the whole job
};

/// Runs jobs, several at once. Each joins, works for three steps and leaves, while allocations
/// fail.
std::vector<ShortageOutcome> run(const std::vector<ShortageJob>& jobs);

}  // namespace weft::tests
