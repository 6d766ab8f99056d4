// Running weft and its peers in turn, whole short runs of each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "benchmarks/run_protocol.hpp"

namespace weft::bench {

/// What the user asked for.
struct Plan {
  RunOptions run;  ///< no sizes: the benchmark's own
  bool quick = false;
  unsigned pairs = 5;
  std::vector<std::string> peers{"openmpi", "mpich"};
};

/// One row's measurements. Column -> a value per pair: "weft", "limit", "weft/limit", each of the
/// limit's ways ("limit_memcpy"), and a peer's microseconds under its name ("openmpi" over
/// send/recv, "openmpi_put" over MPI_Put).
struct Measurements {
  std::size_t size = 0;
  std::string kind;
  std::map<std::string, std::vector<double>> columns;
};
using Results = std::vector<Measurements>;

/// Measures, telling stderr what is left out (a peer that is not installed, a size for which there
/// is no memory) and why. Throws std::runtime_error when a run of weft fails, with what it said.
Results run(const Plan& plan);

}  // namespace weft::bench
