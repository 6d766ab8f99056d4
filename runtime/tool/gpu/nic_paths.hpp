// NICs and the memory of GPUs.
#pragma once

#include <vector>

#include "p2p/transport/cuda/gpu_direct.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/rank_memory.hpp"
#include "runtime/tool/gpu/gpu_paths.hpp"

namespace weft::tool {

/// Tries each port of each RDMA device with each chunk's GPU, and adds to `paths`.
void try_nics(const GpuScene& scene, p2p::cuda::Gpus& gpus,
              const std::vector<p2p::cuda::GpuChunk>& chunks, const p2p::RankMemory& memory,
              GpuPaths& paths);

}  // namespace weft::tool
