// The compiled kernels, as the driver loads them.
#pragma once

namespace weft::p2p::cuda {

/// As cuModuleLoadData takes it: for every GPU from sm_80 on. In a weft that was built without nvcc
/// a text that no driver accepts. Valid as long as the process.
const void* kernel_image() noexcept;
/// Whether nvcc was there when weft was built.
bool has_kernels() noexcept;

}  // namespace weft::p2p::cuda
