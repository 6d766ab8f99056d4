// Versions that their owner fills on a GPU: copied to the buffers that readers see.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/publisher.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

void Publisher::begin_copy() {
  std::optional<p2p::cuda::StreamPoint> former;
  if (gpu_->behind) {
    hold_for_copies(gpu_->behind);
    const p2p::cuda::Gpu::Current current(*gpu_->behind);
    former.emplace(p2p::cuda::UserStream{gpu_->behind, streams_.own->of(gpu_->behind)}, "publish",
                   streams_.own);
  }
  {
    const auto lock = lock_streams();
    touch(*filling_);
  }
  gpu_->copy = local_.gpus->stage("publish", std::span(&gpu_->tensor, 1), buffers_,
                                  *filling_ * stride_, 0, former ? &*former : nullptr);
}

Status Publisher::bring_from_gpu(Deadline deadline) noexcept {
  const auto named = [this](const Status& why) {
    return failure(why.code(), "publish", why.detail().message, why.detail().hint);
  };
  try {
    if (!gpu_->copy) begin_copy();
  } catch (...) {
    gpu_->copies_go_on = true;
    return named(caught_status());
  }
  const auto outcome = p2p::wait_for_device(
      local_, [this] { return gpu_->copy->poll(); },
      deadline.resolve(local_.waiter.default_timeout()),
      [this] {
        return stats::WaitAbout{
            .operation = stats::Operation::next, .slot = id_, .sequence = newest().version + 1};
      });
  if (!outcome)
    return failure(Code::timeout, "publish", text_or_empty([this] {
                     return fmt::format("{} has not copied version {}", spec_.memory.text(),
                                        newest().version + 1);
                   }),
                   "publish again: the copy goes on");
  gpu_->copy.reset();
  if (!outcome->ok()) return named(*outcome);
  gpu_->behind = nullptr;
  count_copy();
  return {};
}

}  // namespace weft::detail
