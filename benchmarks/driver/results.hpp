// The measurements of all programs' runs, row by row.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// The columns of another build of weft: its time, and the time of its limit. The limit's time
/// shows how far apart the two builds are by the noise of the machine alone.
inline constexpr std::string_view kAgainst = "against";
inline constexpr std::string_view kAgainstLimit = "against/limit";

/// One row's measurements: column -> one value per pair. Columns are "weft", "limit", "weft/limit",
/// each way of the limit ("limit_memcpy"), a peer's microseconds under its name ("openmpi" over
/// send/recv, "openmpi_put" over MPI_Put), and another build's under kAgainst and kAgainstLimit.
/// Figures hold further values of this build's runs in the same form.
struct Measurements {
  std::size_t size = 0;
  std::string kind;
  int ranks = 2;
  std::map<std::string, std::vector<double>> columns;
  std::map<std::string, std::vector<double>> figures;
};
using Results = std::vector<Measurements>;

/// Adds the rows of one run of `program`: "weft" (this build), kAgainst or a peer's name.
void add(Results& results, const std::string& program, int ranks, const std::vector<RunRow>& rows);

/// Removes all columns of a peer that has failed.
void forget(Results& results, const std::string& program);

/// Removes the rows that this build has not measured, each with a line on stderr. Throws
/// std::runtime_error unless at least one row is left that the other build has measured, too.
void keep_common_rows(Results& results);

}  // namespace weft::bench
