// Gets into a GPU's memory: a version is read into host memory, and copied from there.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/given_deadline.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/published/reader.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::cuda::Pinning;

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

Status VersionReader::staging_verdict(const std::string& detail, Pinning pinning) noexcept {
  if (why_staged_ == nullptr && !detail.empty())
    local_.log->info(Subsystem::slot, "gets from slot \"{}\" of rank {} to a GPU: {}", spec_.name,
                     owner_.rank, detail);
  why_staged_ = "the tensor lies on a GPU, and the path reaches host memory alone";
  if (published_words_)
    why_staged_ = pinning == Pinning::not_now
                      ? "the owner's memory is not pinned yet, and a stream of this rank waits"
                      : "the driver of the tensor's GPU does not pin the owner's memory";
  else if (!detail.empty())
    why_staged_ = "the NIC does not reach the memory of the tensor's GPU";
  if (!local_.require_gdr) return {};
  return failure(Code::unreachable, "get",
                 formatted("WEFT_REQUIRE=gdr: the version would be staged: {}{}{}", why_staged_,
                           detail.empty() ? "" : ": ", detail),
                 "fix this, or unset WEFT_REQUIRE to take what there is");
}

void VersionReader::count_staged() noexcept {
  row_.gpu_counters().staged_bytes.add(bytes_);
  row_.gpu_counters().device_copies.add(1);
  staged_because_.store(why_staged_, std::memory_order_relaxed);
}

Pinning VersionReader::map_versions(Memory gpu) {
  if (!published_words_) return Pinning::refused;
  const std::byte* const first = views_.front().data();
  const std::size_t bytes = stride_ * (spec_.depth - 1) + bytes_;
  if (!source_) {
    auto mapping = local_.mapper->find(first, bytes);
    if (!mapping) return Pinning::refused;
    const auto own = local_.published->locate(first, bytes);
    source_ = std::make_unique<p2p::cuda::MappedSource>(
        *local_.gpus, std::move(mapping), own ? local_.published : nullptr, own ? own->chunk : 0);
  }
  return source_->pin("get", gpu);
}

p2p::cuda::DeviceCopy VersionReader::copy_mapped(p2p::Newest version, const Tensor& into) {
  return source_->copy("get", views_[version.buffer].data(), into);
}

void VersionReader::drop_mapped() noexcept {
  if (!gpu_get_ || gpu_get_->mapped.version == 0) return;
  const std::uint64_t version = std::exchange(gpu_get_->mapped, {}).version;
  gpu_get_->copy.reset();
  gpu_get_->to = {};
  release(version);
}

Status VersionReader::hold_mapped(const Tensor& into, Deadline until) noexcept {
  drop_mapped();
  const auto version = hold("get", {}, until);
  if (!version.ok()) return version.status();
  try {
    gpu_get_->copy = copy_mapped(*version, into);
    gpu_get_->to = into;
    gpu_get_->mapped = *version;
    return {};
  } catch (...) {
    drop_held(held_.size() - 1);
    return get_failure(caught_status());
  }
}

Status VersionReader::get_mapped(const Tensor& into, Deadline deadline) noexcept {
  p2p::GpuGet& get = *gpu_get_;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (get.mapped.version <= seen_ || get.to.data() != into.data())
    if (Status status = hold_mapped(into, until); !status.ok()) return hinted_for(deadline, status);
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return get.copy->poll(); }, until,
      [&] { return about(stats::Operation::view, get.mapped.version); });
  if (!outcome) return not_copied(get.mapped.version, into);
  // It is read before it is let go of: a synchronous slot's owner asks for that.
  if (outcome->ok()) count_reading(get.mapped, bytes_);
  drop_mapped();
  if (!outcome->ok()) return get_failure(*outcome);
  count_mapped();
  return {};
}

Status VersionReader::not_copied(std::uint64_t version, const Tensor& into) const noexcept {
  return failure(Code::timeout, "get", text_or_empty([&] {
                   return fmt::format("version {} has come, and {} has not copied it", version,
                                      into.memory().text());
                 }),
                 "get again: the copy goes on");
}

Status VersionReader::get_by_nic(const Tensor& into, Deadline deadline) noexcept {
  const SlotRun whole{0, spec_.shape.elements(), into.data()};
  to_gpu_ = true;
  Status status = get_runs(std::span(&whole, 1), &into, deadline);
  to_gpu_ = false;
  if (!interrupted_ && reading_) reading_->tensor = {};
  if (status.ok()) by_nic_.store(true, std::memory_order_relaxed);
  return status;
}

Status VersionReader::end_thread_gets(Deadline until) noexcept {
  if (interrupted_)
    if (Status status = end_interrupted("get", until); !status.ok()) return status;
  if (!gpu_get_ || !gpu_get_->copy) return {};
  const auto outcome = p2p::wait_for_device(
      local_, [&] { return gpu_get_->copy->poll(); }, until,
      [&] { return about(stats::Operation::view, gpu_get_->version); });
  if (!outcome)
    return failure(Code::timeout, "get", "an earlier get is still being copied",
                   "the same call again goes on");
  drop_mapped();
  *gpu_get_ = {};
  return {};
}

Status VersionReader::get_to_gpu(const Tensor& into, Deadline deadline) noexcept {
  if (Status status = check_gpu_target(into); !status.ok()) return status;
  ThreadsTurn turn(*this);
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  if (Status status = end_stream_get("get", until); !status.ok()) return status;
  std::string detail;
  if (owner_.channel->reaches_gpu(into, &detail)) return get_by_nic(into, deadline);
  Pinning pinning{};
  try {
    if (!gpu_get_) gpu_get_ = std::make_unique<p2p::GpuGet>();
    pinning = map_versions(into.memory());
    if (pinning == Pinning::not_now) {
      await_all_streams(until, turn);
      pinning = map_versions(into.memory());
    }
    if (pinning == Pinning::pinned) return get_mapped(into, deadline);
  } catch (...) {
    return get_failure(caught_status());
  }
  if (Status status = staging_verdict(detail, pinning); !status.ok()) return status;
  drop_mapped();
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
  if (!outcome) return not_copied(get.version, into);
  get.copy.reset();
  get.to = {};
  if (!outcome->ok())
    return failure(outcome->code(), "get", outcome->detail().message, outcome->detail().hint);
  seen_ = std::exchange(get.version, 0);
  count_staged();
  return {};
}

}  // namespace weft::detail
