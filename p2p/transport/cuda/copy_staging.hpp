// Copies between a GPU and host memory that the driver has not pinned.
#pragma once

#include <cstddef>
#include <memory>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "weft/deadline.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

class Gpus;

/// A rank's memory for such copies.
struct CopyStaging {
  std::shared_ptr<Arena> data;     ///< of World::allocate: its chunks are pinned as they are used
  std::shared_ptr<Arena> staging;  ///< of which blocks are taken for all other memory
  std::size_t chunk_bytes = 0;     ///< WEFT_GPU_STAGING
};

/// Whether GPUs copy from and to the dense host tensor by themselves. Pins its chunk if it is of
/// `data` and no stream waits. Requires a Gpu::Current.
bool is_pinned_for_copies(Gpus& gpus, const std::shared_ptr<Gpu>& gpu, const CopyStaging& staging,
                          const Tensor& host);

/// Copies between dense tensors, one on the GPU and the other in host memory that is not pinned,
/// chunk by chunk through pinned memory of the rank's, and waits. Where there is none, and a stream
/// waits or the driver refuses to pin any, the driver copies from or to the tensor itself,
/// which may take longer than the deadline. Requires a Gpu::Current. Throws Error: timeout (a copy
/// may be under way, and the target is partly written), exhausted, system.
void copy_by_staging(Gpus& gpus, const std::shared_ptr<Gpu>& gpu, const CopyStaging& staging,
                     const char* operation, const Tensor& from, const Tensor& to,
                     Deadline deadline);

/// Between two questions to a GPU: yields at first, then sleeps for a short time.
void pause_copy(int round);

}  // namespace weft::p2p::cuda
