#include "runtime/world/gpu_copy.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/check_address.hpp"
#include "p2p/transport/cuda/relaxation.hpp"
#include "runtime/world/world_state.hpp"

namespace weft {
namespace {

using p2p::cuda::CopyUnderWay;
using p2p::cuda::DeviceCopy;
using p2p::cuda::Gpu;

/// Begins to set a tensor of World::allocate on a GPU to zeros. Throws Error.
DeviceCopy begin_to_clear(p2p::cuda::Gpus& gpus, const char* operation, const Tensor& tensor) {
  // By its memory: a look for its GPU among all in use would open the rank's own.
  const auto gpu = gpus.chunk_at(tensor.data(), tensor.bytes()).value().gpu;
  const Gpu::Current current(*gpu);
  const p2p::cuda::ScopedRelaxation relaxed(gpu->driver());
  auto copy = std::make_unique<CopyUnderWay>(operation, gpu);
  copy->tensors = {tensor};
  const auto status =
      gpu->driver().set_bytes(p2p::cuda::address_of(tensor), 0, tensor.bytes(), gpu->stream());
  gpu->check(status, operation, "cuMemsetD8Async");
  return begun_copy(std::move(copy), gpu->stream(), status);
}

}  // namespace

GpuCopy::GpuCopy(World& world, Tensor from, Tensor to)
    : world_(world), from_(std::move(from)), to_(std::move(to)) {}

Status GpuCopy::run(const char* operation, Deadline deadline) noexcept {
  detail::WorldState& state = WorldAccess::state(world_);
  try {
    if (!copy_)
      copy_ = clears() ? begin_to_clear(state.gpus, operation, to_)
                       : state.gpus.copy_pinned(operation, state.local.data, from_, to_);
  } catch (...) {
    return caught_status();
  }
  std::optional<Status> outcome = p2p::wait_for_device(
      state.local, [&] { return copy_->poll(); },
      deadline.resolve(state.local.waiter.default_timeout()), [] { return stats::WaitAbout{}; });
  if (!outcome)
    return refuse(Code::timeout, [&] {
      const Tensor& on_gpu = to_.memory().is_gpu() ? to_ : from_;
      return error_detail(Code::timeout, operation,
                          fmt::format("{} has not {} {} within its time", on_gpu.memory().text(),
                                      clears() ? "cleared" : "copied", on_gpu.text()),
                          "call it again: the copy goes on");
    });
  copy_.reset();
  return *std::move(outcome);
}

}  // namespace weft
