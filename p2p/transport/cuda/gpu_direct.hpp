// A GPU's memory for a NIC: descriptors of it, and flushes of what the NIC has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/os/fd.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/gpu.hpp"

namespace weft::p2p::cuda {

/// A chunk of an arena on a GPU, and a place in it.
struct GpuChunk {
  std::shared_ptr<Arena> arena;
  std::shared_ptr<Gpu> gpu;
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;

  std::byte* data() const { return arena->chunk_data(chunk); }
  std::size_t bytes() const { return arena->chunk_bytes(chunk); }
};

/// By which copies and kernels of a GPU see what a NIC has written into its memory.
enum class FlushBy : std::uint8_t {
  none,    ///< it is seen once the NIC says that it has written
  driver,  ///< a call of the driver
  read     ///< a read of that memory by the same NIC, which pushes its writes ahead
};
/// As WEFT_GPU_FLUSH has it.
std::string_view name(FlushBy by) noexcept;
/// `wanted`: WEFT_GPU_FLUSH. Without a wish, what the driver says of the GPU.
FlushBy flush_by(const Gpu& gpu, std::string_view wanted);
/// By the driver. False: it refuses.
bool flush_writes(const Gpu& gpu) noexcept;

/// A dma-buf of a whole chunk; empty: there is none, and `why` says so.
os::Fd dma_buf_of(const GpuChunk& chunk, std::string& why);
/// Why no NIC can reach the GPU's memory, as far as its driver says; nullopt: one may.
std::optional<std::string> no_gpudirect(const Gpu& gpu);

}  // namespace weft::p2p::cuda
