// Whether one GPU of this process copies into the memory of another, found out within the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu_way.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {

struct PairProof {
  GpuWay way = GpuWay::mapped;
  std::string detail{};  ///< what the driver said, if it refused
};

/// Does what a writer and the owner of a slot do when the writer attaches: the owner's chunk is
/// exported, mapped from its descriptor, a page is written by the GPU `writer` and read back, and
/// read by the GPU `owner`. `staging`: host memory for the page. Waits some seconds at most. Never
/// throws for what the driver refuses.
PairProof prove_pair(Gpus& gpus, int writer, int owner, const std::shared_ptr<Arena>& staging);

}  // namespace weft::p2p::cuda
