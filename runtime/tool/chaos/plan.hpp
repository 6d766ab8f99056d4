// Draws a plan of faults for a job's ranks from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::tool {

enum class Fault : std::uint8_t { kill, stop, slow, cut };
std::string_view name(Fault fault) noexcept;

struct PlanOptions {
  std::uint64_t seed = 0;
  std::vector<Fault> faults;  ///< kinds to draw from
  std::vector<int> ranks;     ///< ranks to draw from; empty: all
  int size = 0;               ///< ranks of the job
  int count = 1;              ///< number of faults
  double after_s = 1;         ///< earliest time, in seconds since all ranks run
  double within_s = 10;       ///< latest time, in seconds since all ranks run
  double for_s = 0;           ///< duration of a lasting fault, in seconds; 0: drawn from 0.5 to 3
};

struct Step {
  double at_s = 0;  ///< seconds since all ranks run
  Fault fault = Fault::kill;
  int rank = 0;
  double for_s = 0;  ///< seconds; 0: permanent
};

/// Returns the plan in order of time; the same options give the same plan on any machine. No rank
/// is killed twice.
std::vector<Step> make_plan(const PlanOptions& options);

/// Formats a step: "at 2.314 s: stop rank 3 for 1.2 s".
std::string text(const Step& step);

}  // namespace weft::tool
