#include "p2p/transport/cuda/gpu_kernels.hpp"

#include <fmt/format.h>

#include "p2p/transport/cuda/api/load.hpp"
#include "p2p/transport/cuda/gpu.hpp"
#include "p2p/transport/cuda/kernels/convert_kernel.hpp"
#include "p2p/transport/cuda/kernels/kernel_image.hpp"
#include "p2p/transport/cuda/kernels/meet_kernel.hpp"
#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"
#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kKernelNames[] = {
#define WEFT_KERNEL_NAME(dtype, reduction, Type, Op) "weft_reduce_" #dtype "_" #reduction,
    WEFT_REDUCE_KERNELS(WEFT_KERNEL_NAME) WEFT_REDUCE_KERNELS_OF_SUMS(WEFT_KERNEL_NAME)
#undef WEFT_KERNEL_NAME
#define WEFT_KERNEL_NAMES(dtype, what, Type) \
  "weft_widen_" #dtype "_" #what, "weft_finish_" #dtype "_" #what,
        WEFT_CONVERT_KERNELS(WEFT_KERNEL_NAMES)
#undef WEFT_KERNEL_NAMES
            kernels::kMeetKernel,
};

}  // namespace

GpuKernels::GpuKernels(const Gpu& gpu) : driver_(gpu.driver()) {
  const ScopedRelaxation relaxed(driver_);
  const DriverStatus status = driver_.load_module(&module_, kernel_image());
  if (status != DriverStatus::success) {
    module_ = nullptr;
    refusal_ = has_kernels() ? fmt::format("GPU {} does not take weft's kernels: {}", gpu.ordinal(),
                                           error_text(driver_, status))
                             : std::string("this weft was built without nvcc, and has no kernels");
    return;
  }
  // All at once: a driver may load each kernel only when it is asked for, and waits then too.
  for (const char* const name : kKernelNames) {
    Function found = nullptr;
    if (driver_.function(&found, module_, name) == DriverStatus::success)
      kernels_.emplace(name, found);
  }
}

GpuKernels::~GpuKernels() {
  if (module_ != nullptr) (void)driver_.unload_module(module_);
}

Function GpuKernels::find(const std::string& name) const noexcept {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second;
}

}  // namespace weft::p2p::cuda
