// Runs weft and its peers alternately, in short whole runs.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/driver/programs.hpp"
#include "benchmarks/driver/results.hpp"
#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The benchmark run that the user asked for.
struct Plan {
  RunOptions run;  ///< no sizes: the benchmark's own
  bool quick = false;
  unsigned pairs = 5;
  /// Peers to run. "none": no peers. Empty: all peers of the benchmark, or none beside another
  /// build.
  std::vector<std::string> peers;
  std::string against;                ///< another build of weft, as weft_bench_of() takes it
  std::string fabric;                 ///< that weft's ranks use; empty: what WEFT_FABRIC says
  std::vector<int> readers{1, 3, 7};  ///< of a benchmark that has readers
  std::vector<int> ranks;             ///< of a collective; none: the benchmark's own
};

/// Facts that the figures of a run depend on.
struct Machine {
  unsigned processors = 1;           ///< that the ranks had
  std::string congestion_control{};  ///< of TCP; empty if ranks don't use TCP
};
/// After run(), which sets the fabric of the ranks.
Machine machine_of_runs();

/// Measures. Prints to stderr what is left out (a peer that is not installed, a size for which
/// there is no memory) and why, and whether ranks share processors. Throws std::runtime_error, with
/// the reason, if the plan can't be run or a run of weft fails.
Results run(const Plan& plan);

}  // namespace weft::bench
