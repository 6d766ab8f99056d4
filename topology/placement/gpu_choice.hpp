// Gives the GPUs of a host to its ranks, before any driver is asked.
#pragma once

#include <string>
#include <vector>

#include "topology/placement/place.hpp"

namespace weft::topology {

/// The GPUs of a host's ranks, as one process assumes them before a driver is asked.
struct GivenGpus {
  std::vector<int> visible{};  ///< to this process, in CUDA's order: in Model::gpus, by PCI address
  std::vector<int> of_rank{};  ///< in Model::gpus; empty: not known
  bool is_named = false;       ///< WEFT_GPU or CUDA_VISIBLE_DEVICES names this rank's alone
  std::string reason{};        ///< why this rank has its own, or none; empty: there are no GPUs
};

/// Rank i takes the GPU that WEFT_GPU names, else the i-th of those that CUDA_VISIBLE_DEVICES
/// shows, in turn. Where a rank's is named alone, the others are assumed to have the next ones.
GivenGpus give_gpus(const Model& model, const RankOnHost& own);

}  // namespace weft::topology
