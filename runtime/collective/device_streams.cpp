// The part of DeviceGroup for streams that run a call.
#include <fmt/format.h>

#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/cuda/kernels/meet_kernel.hpp"
#include "runtime/collective/device_group.hpp"

namespace weft::detail {
namespace {

/// The kernel that copies elements of that size: a combination of one source alone.
struct CopyKernel {
  const char* name;
  std::size_t element;
};

CopyKernel copy_kernel(std::size_t element) noexcept {
  switch (element) {
    case 8:
      return {"weft_reduce_i64_bit_or", 8};
    case 4:
      return {"weft_reduce_i32_bit_or", 4};
    default:
      return {"weft_reduce_u8_bit_or", 1};
  }
}

}  // namespace

bool DeviceGroup::prepare_streams(const Task& task, DeviceCall& call) {
  if (ranks_.size() > p2p::cuda::kernels::kMostPartners) {
    refuse(Why::many_ranks, [] {
      return fmt::format("streams of {} ranks meet at most", p2p::cuda::kernels::kMostPartners);
    });
    return false;
  }
  const p2p::cuda::Gpu::Current current(*call.gpu);
  const p2p::cuda::GpuKernels* const kernels = load_kernels(call);
  if (kernels == nullptr) return false;
  for (const char* const needed :
       {p2p::cuda::kernels::kMeetKernel, copy_kernel(task.element).name}) {
    if (kernels->find(needed) != nullptr) continue;
    refuse(Why::no_kernels, [&] {
      return kernels->refusal().empty() ? fmt::format("there is no kernel {}", needed)
                                        : kernels->refusal();
    });
    return false;
  }
  return true;
}

std::vector<p2p::cuda::PeerReduction> DeviceGroup::work(const Task& task, const DeviceCall& call) {
  const p2p::cuda::PeerReduction reduction = share(task, call);
  std::vector<p2p::cuda::PeerReduction> all;
  if (reduction.kernel != nullptr) {
    all.push_back(reduction);
    return all;
  }
  // Copies of the driver's would go on after the end of the runs: a kernel looks first.
  const CopyKernel kernel = copy_kernel(task.element);
  for (const p2p::cuda::PeerCopy& copy : copies_) {
    p2p::cuda::PeerReduction one;
    one.kernel = call.gpu->kernels().find(kernel.name);
    one.element = kernel.element;
    one.launch.sources[0] = reinterpret_cast<const unsigned char*>(copy.from);
    one.launch.targets[0] = reinterpret_cast<unsigned char*>(copy.to);
    one.launch.source_count = one.launch.target_count = 1;
    one.launch.count = copy.bytes / kernel.element;
    one.launch.scale = one.launch.divisor = 1;
    p2p::cuda::divide(one.launch, one.element);
    all.push_back(one);
  }
  return all;
}

}  // namespace weft::detail
