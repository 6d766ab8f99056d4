// Host memory of another rank's that is mapped here, as this rank's GPUs copy from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/os/mapping.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::cuda {

/// One thread at a time.
class MappedSource {
 public:
  /// `own`: the arena whose `chunk` it is, if that is this rank's; else null. `gpus` must outlive
  /// this.
  MappedSource(Gpus& gpus, std::shared_ptr<const os::Mapping> mapping, std::shared_ptr<Arena> own,
               std::uint32_t chunk) noexcept
      : gpus_(gpus), mapping_(std::move(mapping)), own_(std::move(own)), chunk_(chunk) {}

  /// Whether copies to that GPU go on by themselves: pins the memory unless a stream waits. Throws
  /// Error.
  Pinning pin(const char* operation, Memory memory);
  /// Begins to copy to a dense tensor, and holds that and the mapping. Requires pin() for its GPU.
  /// Throws Error.
  DeviceCopy copy(const char* operation, const std::byte* from, const Tensor& to) const;

 private:
  Gpus& gpus_;
  const std::shared_ptr<const os::Mapping> mapping_;
  const std::shared_ptr<Arena> own_;
  const std::uint32_t chunk_;
  std::shared_ptr<Gpu> gpu_;  ///< that pin() was called for last
};

}  // namespace weft::p2p::cuda
