// A few numbers from every worker to rank 0, once a round.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/world.hpp"

namespace charlm {

/// One slot for each of the lowest `ranks` ranks, all of them at rank 0. The depth lets a rank be a
/// whole round ahead of rank 0 without waiting for it: in a training step nobody gets further, as
/// the parameter server holds the ranks together. Must go before its world. Thread-safety: one
/// thread at a time.
class RankGather {
 public:
  /// Each of them calls it, with the same arguments. Throws weft::Error.
  RankGather(weft::World& world, const std::string& name, int ranks, std::size_t count);

  /// Every one of them, once a round: its `count` values.
  weft::Status put(std::span<const double> values) noexcept;
  /// Rank 0, after its own put: the round's values of all ranks, [ranks][count], valid until the
  /// next round. The error names the rank that fails to deliver.
  weft::Result<std::span<const double>> collect() noexcept;

 private:
  std::size_t count_;
  std::vector<weft::Slot> slots_;  // rank 0: slots_[r - 1] is rank r's
  std::vector<double> gathered_;   // rank 0
  weft::Tensor outgoing_;          // the others
  weft::RemoteSlot remote_;
};

}  // namespace charlm
