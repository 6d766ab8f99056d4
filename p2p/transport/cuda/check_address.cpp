#include "p2p/transport/cuda/check_address.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/fail.hpp"

namespace weft::p2p::cuda {

void check_address(const Gpu& gpu, const char* operation, const char* which, const Tensor& tensor) {
  if (tensor.arena() != nullptr) return;
  const auto refuse = [&](std::string message, const char* hint) {
    throw_error(Code::bad_argument, operation, std::move(message), hint);
  };
  const Driver& driver = gpu.driver();
  const DevicePointer at = address_of(tensor);
  unsigned kind = 0;
  int ordinal = -1;
  const bool is_gpu =
      driver.pointer_attribute(&kind, PointerAttribute::memory_kind, at) == DriverStatus::success &&
      kind == static_cast<unsigned>(MemoryKind::device) &&
      driver.pointer_attribute(&ordinal, PointerAttribute::device_ordinal, at) ==
          DriverStatus::success;
  const std::string place = fmt::format("{} {} at {:#x}", which, tensor.text(), at);
  if (tensor.memory().is_host()) {
    if (is_gpu)
      refuse(fmt::format("{} lies on GPU {}, and was given as host memory", place, ordinal),
             "wrap it with Memory::gpu(n)");
    return;
  }
  if (!is_gpu)
    refuse(fmt::format("{} is no memory of {}", place, tensor.memory().text()),
           "it was freed, is host memory, or another process has it");
  if (ordinal != tensor.memory().ordinal())
    refuse(fmt::format("{} lies on GPU {}, not on {}", place, ordinal, tensor.memory().text()),
           "wrap it with the GPU that it lies on");
  DevicePointer base = 0;
  std::size_t bytes = 0;
  if (driver.address_range(&base, &bytes, at) == DriverStatus::success &&
      tensor.bytes() > base + bytes - at)
    refuse(fmt::format("{} ends behind its allocation, which has {} bytes from there on", place,
                       base + bytes - at),
           "wrap what was allocated");
}

}  // namespace weft::p2p::cuda
