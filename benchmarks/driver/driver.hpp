// Running weft and its peers in turn, whole short runs of each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// What the user asked for.
struct Plan {
  RunOptions run;  ///< no sizes: the benchmark's own
  bool quick = false;
  unsigned pairs = 5;
  std::vector<std::string> peers;     ///< "none" for none; empty: all that the benchmark has
  std::string fabric;                 ///< that weft's ranks use; empty: what WEFT_FABRIC says
  std::vector<int> readers{1, 3, 7};  ///< of a benchmark that has readers
  std::vector<int> ranks;             ///< of a collective; none: the benchmark's own
};

/// One row's measurements. Column -> a value per pair: "weft", "limit", "weft/limit", each of the
/// limit's ways ("limit_memcpy"), and a peer's microseconds under its name ("openmpi" over
/// send/recv, "openmpi_put" over MPI_Put). Figures likewise: what weft's runs saw besides.
struct Measurements {
  std::size_t size = 0;
  std::string kind;
  int ranks = 2;
  std::map<std::string, std::vector<double>> columns;
  std::map<std::string, std::vector<double>> figures;
};
using Results = std::vector<Measurements>;

/// Processors that this process, and so its runs, may use.
unsigned processors();

/// Measures, telling stderr what is left out (a peer that is not installed, a size for which there
/// is no memory) and why, and when ranks share processors. Throws std::runtime_error when the plan
/// can't be run, or a run of weft fails, with what it said.
Results run(const Plan& plan);

}  // namespace weft::bench
