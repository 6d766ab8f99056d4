// Chunks of a GPU's memory for arenas.
#pragma once

#include <memory>

#include "p2p/memory/chunk_source.hpp"
#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

/// Memory with addresses of its own (cuMemCreate), so that another process can map a chunk by its
/// descriptor, and a NIC register it, wherever the GPU allows that. Chunks keep the GPU.
std::unique_ptr<ChunkSource> gpu_chunks(std::shared_ptr<Gpu> gpu);

}  // namespace weft::p2p::cuda
