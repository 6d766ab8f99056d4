// The ranks that a slot's waits need besides its peer.
#pragma once

#include <span>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "weft/slot.hpp"

namespace weft::p2p {

/// Thread-safety: the caller's.
class NeededRanks {
 public:
  explicit NeededRanks(Mesh& mesh) noexcept : mesh_(mesh) {}

  /// Throws Error(bad_argument) for a rank that the job does not have.
  void set(std::span<const int> ranks, Needed needed) {
    mesh_.check_ranks(ranks, "also_needs");
    ranks_.assign(ranks.begin(), ranks.end());
    needed_ = needed;
  }
  /// ok() while none of them ends a wait.
  Status status() const noexcept { return mesh_.peer_status(ranks_, needed_); }

 private:
  Mesh& mesh_;
  std::vector<int> ranks_;
  Needed needed_ = Needed::always;
};

}  // namespace weft::p2p
