// Gives the GPUs of a host to its ranks, before any driver is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/placement/place.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {

/// The GPUs that CUDA would show to a process, in its order, as far as the model tells: those of
/// NVIDIA's by PCI address.
struct VisibleGpus {
  std::vector<int> gpus{};  ///< in Model::gpus
  /// Why it can't be told; empty: it can.
  std::string unknown{};
  bool some_hidden = false;
};
/// By the driver's GPUs and CUDA_VISIBLE_DEVICES.
VisibleGpus visible_gpus(const Model& model, const RankOnHost& own);

/// Sets HostRank::gpu of every rank: what WEFT_GPU names; else each rank one near its processors,
/// no GPU two ranks more than another. Returns why this rank has its own, or none; empty on a host
/// without GPUs.
std::string give_gpus(const Model& model, const RankOnHost& own, std::vector<HostRank>& ranks);

}  // namespace weft::topology
