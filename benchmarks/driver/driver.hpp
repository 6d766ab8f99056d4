// Running weft and its peers in turn, whole short runs of each.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/driver/results.hpp"
#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The benchmark run that the user asked for.
struct Plan {
  RunOptions run;  ///< no sizes: the benchmark's own
  bool quick = false;
  unsigned pairs = 5;
  /// "none" for none. Empty: all that the benchmark has, or none beside another build.
  std::vector<std::string> peers;
  std::string against;                ///< another build of weft, as weft_bench_of() takes it
  std::string fabric;                 ///< that weft's ranks use; empty: what WEFT_FABRIC says
  std::vector<int> readers{1, 3, 7};  ///< of a benchmark that has readers
  std::vector<int> ranks;             ///< of a collective; none: the benchmark's own
};

/// Processors that this process, and so its runs, may use.
unsigned processors();

/// Measures, telling stderr what is left out (a peer that is not installed, a size for which there
/// is no memory) and why, and when ranks share processors. Throws std::runtime_error when the plan
/// can't be run, or a run of weft fails, with what it said.
Results run(const Plan& plan);

}  // namespace weft::bench
