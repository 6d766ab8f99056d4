// Host memory of several ranks that a process pins once, however many of its ranks use it.
#pragma once

#include <cstddef>
#include <memory>

#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

/// A handle of a mapping that all GPUs of the process reach, its own or a peer's. The last handle
/// unpins it. Thread-safe.
class PinnedMapping {
 public:
  /// `memory` keeps the `bytes` at `data`, which begin a mapping. Requires that no stream waits for
  /// this rank, unless another handle of the mapping exists. Throws Error.
  PinnedMapping(const char* operation, std::shared_ptr<Gpu> gpu, std::shared_ptr<const void> memory,
                std::byte* data, std::size_t bytes);
  PinnedMapping(const PinnedMapping&) = delete;
  PinnedMapping& operator=(const PinnedMapping&) = delete;
  ~PinnedMapping();

 private:
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<const void> memory_;
  std::byte* const data_;
};

}  // namespace weft::p2p::cuda
