// Arrivals that lie in staging buffers first.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/put/owner.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

Status PutOwner::unstage(std::uint64_t wanted, Deadline deadline) noexcept {
  if (buffers_.gpu() != nullptr)
    return buffers_.came_to_gpu(buffer_, wanted) ? Status{} : unstage_to_gpu(wanted, deadline);
  buffers_.unstage(buffer_);
  counters_.bytes_copied.add(buffers_.tensor_bytes());
  return {};
}

Status PutOwner::staging_refusal() const {
  return refuse(Code::unreachable, [&] {
    return ErrorDetail{
        .message = fmt::format("WEFT_REQUIRE=gdr: the tensor came by way of host memory: {}",
                               p2p::cuda::reason_of(buffers_.gpu()->offer().way())),
        .hint = "fix this, or unset WEFT_REQUIRE to take what there is"};
  });
}

void PutOwner::begin_unstaging(std::uint64_t index, std::uint64_t wanted) {
  p2p::GpuArrivals& gpu = *buffers_.gpu();
  std::uint64_t next = wanted;
  for (std::uint64_t sequence = wanted; buffers_.sequence_at(index) == sequence; ++sequence) {
    if (!buffers_.came_to_gpu(index, sequence))
      gpu.begin(index, sequence, buffers_.tensor(index, sequence));
    index = index + 1 == spec_.depth ? 0 : index + 1;
    next = sequence + 1;
  }
  if (next - wanted < spec_.depth) begin_unstaging_early(index, next);
  if (const std::string why = local_.gpus->pins().take_refusal(); !why.empty())
    local_.log->warn(Subsystem::slot, "copies to and from GPUs keep their callers waiting: {}",
                     why);
}

void PutOwner::begin_unstaging_early(std::uint64_t index, std::uint64_t wanted) noexcept {
  // A writer without a credit does not get at a tensor that the application holds.
  const bool is_free = spec_.flow != Flow::credits ||
                       released_.all(std::memory_order_acquire) + spec_.depth >= wanted;
  if (is_free) buffers_.gpu()->begin_early(index, wanted, buffers_.tensor(index, wanted));
}

Status PutOwner::unstage_to_gpu(std::uint64_t wanted, Deadline deadline) noexcept {
  const auto named = [&](const Status& status) {
    return altered(status, [&](ErrorDetail& detail) {
      detail.operation = "wait";
      detail.slot = spec_.name;
      detail.rank = local_.rank;
      detail.sequence_expected = wanted;
    });
  };
  if (local_.require_gdr) return named(staging_refusal());
  try {
    const auto lock = lock_copies();
    begin_unstaging(buffer_, wanted);
  } catch (...) {
    return named(caught_status());
  }
  stats::WaitDetailsRoom details;
  const auto outcome = p2p::wait_for_device(
      local_,
      [&] {
        const auto lock = lock_copies();
        return buffers_.gpu()->poll(buffer_);
      },
      deadline.resolve(local_.waiter.default_timeout()),
      [&] { return waits_for(wanted, details.make()); });
  if (!outcome)
    return named(refuse(Code::timeout, [&] {
      return ErrorDetail{.message = fmt::format("the tensor has arrived, and {} has not copied it",
                                                buffers_.tensor(buffer_, wanted).memory().text()),
                         .hint = "wait again: the copy goes on"};
    }));
  if (!outcome->ok()) return named(*outcome);
  const auto lock = lock_copies();
  row_.gpu_counters().staged_bytes.add(buffers_.tensor_bytes());
  row_.gpu_counters().device_copies.add(1);
  return {};
}

}  // namespace weft::detail
