// A job of processes, one of whose ranks is hostile.
#pragma once

#include <string>
#include <vector>

namespace weft::tests {

struct HostileJob {
  static constexpr int kRanks = 4;

  std::string workload;
  unsigned seed = 0;
  int hostile() const noexcept;
};

/// The honest ranks that did not end by themselves, and well: empty if all did. `errors` counts the
/// typed errors that the ranks met.
struct Outcome {
  std::vector<std::string> broken;
  int errors = 0;
  double seconds = 0;
};

/// Requires that this process has one thread.
Outcome run(const HostileJob& job);

}  // namespace weft::tests
