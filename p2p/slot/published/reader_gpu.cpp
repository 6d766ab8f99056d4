// Gets into a GPU's memory: a version is read into host memory, and copied from there.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

Status VersionReader::check_gpu_target(const Tensor& into) const noexcept {
  if (local_.gpus == nullptr)
    return failure(Code::bad_argument, "get", "the tensor lies on a GPU, and this rank has none",
                   give_host_memory(into));
  try {
    local_.gpus->check_parts("get", std::span(&into, 1));
    return {};
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "get", why.detail().message, why.detail().hint);
  }
}

Status VersionReader::check_wrapped_target(const Tensor& into) const noexcept {
  try {
    if (local_.gpus != nullptr) local_.gpus->check_host("get", into);
    return {};
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "get", why.detail().message, why.detail().hint);
  }
}

Status VersionReader::stage_version(Deadline until) noexcept {
  if (gpu_get_->version > seen_) return {};
  // A copy that goes on keeps the block that it reads.
  if (gpu_get_->copy) *gpu_get_ = {};
  try {
    if (!gpu_get_->block)
      gpu_get_->block = std::make_shared<const p2p::OwnedBlock>(local_.staging, bytes_);
  } catch (...) {
    const Status why = caught_status();
    return failure(Code::exhausted, "get", why.detail().message, why.detail().hint);
  }
  const SlotRun whole{0, spec_.shape.elements(), gpu_get_->block->data()};
  const std::uint64_t seen = seen_;
  if (Status status = get_runs(std::span(&whole, 1), nullptr, until); !status.ok()) return status;
  // Not seen yet: the copy may fail, and then the version is there for the next call.
  gpu_get_->version = std::exchange(seen_, seen);
  return {};
}

Status VersionReader::get_to_gpu(const Tensor& into, Deadline deadline) noexcept {
  if (Status status = check_gpu_target(into); !status.ok()) return status;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  try {
    if (!gpu_get_) gpu_get_ = std::make_unique<p2p::GpuGet>();
  } catch (...) {
    return failure(Code::exhausted, "get", "no memory to keep track of the copy", "");
  }
  if (Status status = stage_version(until); !status.ok()) return status;
  p2p::GpuGet& get = *gpu_get_;
  try {
    if (!get.copy || get.to.data() != into.data()) {
      get.copy = local_.gpus->unstage("get", get.block, 0, into, {});
      get.to = into;
    }
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "get", why.detail().message, why.detail().hint);
  }
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return get.copy->poll(); }, until,
      [&] { return about(stats::Operation::view, get.version); });
  if (!outcome)
    return failure(Code::timeout, "get", text_or_empty([&] {
                     return fmt::format("version {} has come, and {} has not copied it",
                                        get.version, into.memory().text());
                   }),
                   "get again: the copy goes on");
  get.copy.reset();
  get.to = {};
  if (!outcome->ok())
    return failure(outcome->code(), "get", outcome->detail().message, outcome->detail().hint);
  seen_ = std::exchange(get.version, 0);
  row_.gpu_counters().staged_bytes.add(bytes_);
  row_.gpu_counters().device_copies.add(1);
  staged_because_.store("the tensor lies on a GPU, and the path reaches host memory alone",
                        std::memory_order_relaxed);
  return {};
}

}  // namespace weft::detail
