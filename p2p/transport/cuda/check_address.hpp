// Whether memory lies where a tensor says.
#pragma once

#include "p2p/transport/cuda/gpu.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p::cuda {

inline DevicePointer address_of(const Tensor& tensor) noexcept {
  return reinterpret_cast<DevicePointer>(tensor.data());
}

/// Memory that is not weft's own may be what it is not said to be: this asks the driver. `which`
/// names the tensor: "the source". Requires a Gpu::Current. Throws Error(bad_argument).
void check_address(const Gpu& gpu, const char* operation, const char* which, const Tensor& tensor);

}  // namespace weft::p2p::cuda
