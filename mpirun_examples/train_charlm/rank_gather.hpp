// A gather of a few numbers from every worker to rank 0, once per round.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace charlm {

/// One slot at rank 0 for each of the lowest `ranks` ranks. The slots' depth lets a rank be one
/// round ahead of rank 0 without waiting; no rank gets further ahead, since the parameter server
/// keeps the ranks in step. Must be destroyed before its world. Thread-safety: one thread at a
/// time.
class RankGather {
 public:
  /// Each of these ranks calls it with the same arguments. Throws weft::Error.
  RankGather(weft::World& world, const std::string& name, int ranks, std::size_t count);

  /// Called by each of these ranks once per round, with `count` values.
  weft::Status put(std::span<const double> values) noexcept;
  /// Rank 0, after its own put(): the round's values of all ranks, [ranks][count], valid until the
  /// next round. Errors name the rank that fails to deliver.
  weft::Result<std::span<const double>> collect() noexcept;

 private:
  std::size_t count_;
  std::vector<weft::Slot> slots_;  // rank 0: slots_[r - 1] is for rank r
  std::vector<double> gathered_;   // rank 0
  weft::Tensor outgoing_;          // other ranks
  weft::RemoteSlot remote_;
};

}  // namespace charlm
