// Random traffic over slots that come and go, for any way that a fabric may behave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/simulated_job.hpp"

namespace weft::tests {

/// The parameters of a traffic run; all of them follow from the seed.
struct Traffic {
  std::uint64_t seed = 1;
  int ranks = 4;
  /// Ranks may die and connections may break: edges may then end early, but for no other reason.
  bool losses = false;
  /// By rank: whether it needs nothing more of the others. Shared by the ranks of one run.
  std::shared_ptr<std::vector<bool>> content =
      std::make_shared<std::vector<bool>>(static_cast<std::size_t>(ranks), false);
};

/// The body of one rank: writes into slots of its peers and reads those that they write, views
/// what they publish, closes and exposes again, detaches and attaches again. Throws
/// std::runtime_error for whatever must not be: another tensor than the one put, one that is
/// missing or comes twice, a version in pieces, a wait that does not end, an error without a cause.
void run_traffic(SimJob& job, World& world, const Traffic& traffic);

}  // namespace weft::tests
