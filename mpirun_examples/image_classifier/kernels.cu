// The kernels: a thread for each index.
#include "kernels.hpp"

namespace {

template <typename Kernel>
__device__ void run(const Kernel& kernel) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kernel.threads()) kernel(i);
}

}  // namespace

#define IMAGES_DEFINE(name, Kernel) \
  extern "C" __global__ void name(images::kernels::Kernel kernel) { run(kernel); }
IMAGES_KERNELS(IMAGES_DEFINE)
#undef IMAGES_DEFINE
