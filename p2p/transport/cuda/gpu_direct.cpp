#include "p2p/transport/cuda/gpu_direct.hpp"

#include <fmt/format.h>

#include <array>

#include "p2p/transport/cuda/api/load.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr std::array<std::string_view, 3> kNames{"none", "driver", "read"};

/// 0 where the driver does not know it.
int attribute(const Gpu& gpu, DeviceAttribute which) {
  int value = 0;
  return gpu.driver().device_attribute(&value, which, gpu.ordinal()) == DriverStatus::success
             ? value
             : 0;
}

}  // namespace

std::string_view name(FlushBy by) noexcept { return kNames[static_cast<std::size_t>(by)]; }

FlushBy flush_by(const Gpu& gpu, std::string_view wanted) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == wanted) return static_cast<FlushBy>(i);
  const auto ordered_for =
      static_cast<unsigned>(attribute(gpu, DeviceAttribute::gpudirect_ordering));
  if (ordered_for >= kOrderedForOwner) return FlushBy::none;
  const auto ways = static_cast<unsigned>(attribute(gpu, DeviceAttribute::gpudirect_flush));
  return (ways & kFlushByCall) != 0 ? FlushBy::driver : FlushBy::read;
}

bool flush_writes(const Gpu& gpu) noexcept {
  try {
    const Gpu::Current current(gpu);
    return gpu.driver().flush_gpudirect(FlushTarget::current_context, FlushScope::owner) ==
           DriverStatus::success;
  } catch (...) {
    return false;
  }
}

os::Fd dma_buf_of(const GpuChunk& chunk, std::string& why) {
  const Gpu& gpu = *chunk.gpu;
  if (attribute(gpu, DeviceAttribute::dma_buf) == 0) {
    why = "the GPU's driver gives no dma-buf";
    return {};
  }
  const Gpu::Current current(gpu);
  int descriptor = -1;
  // Without flags: a mapping by PCIe alone is for machines with another link besides it.
  const DriverStatus status =
      gpu.driver().range_handle(&descriptor, reinterpret_cast<DevicePointer>(chunk.data()),
                                chunk.bytes(), RangeHandle::dma_buf, 0);
  if (status == DriverStatus::success) return os::Fd(descriptor);
  why = fmt::format("cuMemGetHandleForAddressRange: {}", error_text(gpu.driver(), status));
  return {};
}

std::optional<std::string> no_gpudirect(const Gpu& gpu) {
  if (attribute(gpu, DeviceAttribute::gpudirect) == 0)
    return fmt::format("GPU {} has no GPUDirect", gpu.ordinal());
  if (attribute(gpu, DeviceAttribute::gpudirect_of_virtual_memory) == 0)
    return fmt::format("GPU {} has no GPUDirect for memory with addresses of its own",
                       gpu.ordinal());
  return std::nullopt;
}

}  // namespace weft::p2p::cuda
