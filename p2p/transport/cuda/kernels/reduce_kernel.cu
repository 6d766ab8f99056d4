// The kernels, for nvcc.
#include "p2p/transport/cuda/kernels/convert_kernel.hpp"
#include "p2p/transport/cuda/kernels/meet_kernel.hpp"
#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"

namespace weft::p2p::cuda::kernels {

#define WEFT_REDUCE_KERNEL(dtype, reduction, Type, Op)                                          \
  extern "C" __global__ void __launch_bounds__(256)                                             \
      weft_reduce_##dtype##_##reduction(const __grid_constant__ ReduceParameters launch) {      \
    reduce<Type, Op>(launch, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, \
                     static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                       \
  }
WEFT_REDUCE_KERNELS(WEFT_REDUCE_KERNEL)
WEFT_REDUCE_KERNELS_OF_SUMS(WEFT_REDUCE_KERNEL)
#undef WEFT_REDUCE_KERNEL

#define WEFT_CONVERT_KERNEL(dtype, what, Type)                                                  \
  extern "C" __global__ void __launch_bounds__(256)                                             \
      weft_widen_##dtype##_##what(const __grid_constant__ ReduceParameters launch) {            \
    widen<Type>(launch, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x,      \
                static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                            \
  }                                                                                             \
  extern "C" __global__ void __launch_bounds__(256)                                             \
      weft_finish_##dtype##_##what(const __grid_constant__ ReduceParameters launch) {           \
    finish<Type>(launch, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x,     \
                 static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                           \
  }
WEFT_CONVERT_KERNELS(WEFT_CONVERT_KERNEL)
#undef WEFT_CONVERT_KERNEL

extern "C" __global__ void __launch_bounds__(64)
    weft_meet(const __grid_constant__ MeetParameters launch) {
  meet(launch, threadIdx.x);
}

}  // namespace weft::p2p::cuda::kernels
