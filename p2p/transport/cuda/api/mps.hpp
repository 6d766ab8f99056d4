// Whether GPUs are shared by CUDA's Multi-Process Service.
#pragma once

#include "p2p/transport/cuda/api/driver.hpp"

namespace weft::p2p::cuda {

/// CU_DEVICE_ATTRIBUTE_MPS_ENABLED. The oldest header that weft is compared with does not have it.
inline constexpr auto kMpsEnabled = static_cast<DeviceAttribute>(133);

/// Whether this process reaches the GPU through a server of MPS, whose context outlives a client
/// that is killed. Drivers that do not tell: whether a control daemon's pipe is where the process
/// would look for it (CUDA_MPS_PIPE_DIRECTORY). Throws nothing but std::bad_alloc.
bool runs_under_mps(const Driver& driver, int ordinal);

}  // namespace weft::p2p::cuda
