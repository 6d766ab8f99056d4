// What is to happen to a job's ranks, and when: decided by a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::tool {

enum class Fault : std::uint8_t { kill, stop, slow, cut };
std::string_view name(Fault fault) noexcept;

struct PlanOptions {
  std::uint64_t seed = 0;
  std::vector<Fault> faults;  ///< those to choose from
  std::vector<int> ranks;     ///< whom to choose from; empty: all
  int size = 0;               ///< of the job
  int count = 1;              ///< faults
  double after_s = 1;         ///< the first moment, from when all ranks run
  double within_s = 10;       ///< the last one
  double for_s = 0;           ///< how long one lasts that ends by itself; 0: half a second to 3 s
};

struct Step {
  double at_s = 0;
  Fault fault = Fault::kill;
  int rank = 0;
  double for_s = 0;  ///< 0: for good
};

/// The same for the same options on any machine; in the order of time. No rank is killed twice.
std::vector<Step> make_plan(const PlanOptions& options);

/// "at 2.314 s: stop rank 3 for 1.2 s".
std::string text(const Step& step);

}  // namespace weft::tool
