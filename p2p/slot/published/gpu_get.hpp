// The staging memory of gets to a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "p2p/memory/arena.hpp"
#include "p2p/slot/attach/published_words.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// Host memory that a version is read into, and its copy to the GPU.
struct GpuGet {
  std::shared_ptr<const OwnedBlock> block;
  std::uint64_t version = 0;  ///< in the block, and not handed out yet; 0: none
  Newest mapped{};            ///< held for the copy from where it lies; 0: none is
  Tensor to{};                ///< where the copy under way goes
  std::optional<cuda::DeviceCopy> copy{};
};

}  // namespace weft::p2p
