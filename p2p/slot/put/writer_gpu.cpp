// Puts of tensors on a GPU: they are pending until a copy has brought them into host memory.
#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

bool PutWriter::is_misplaced(const Tensor& tensor) const noexcept {
  return local_.gpus != nullptr && local_.gpus->is_misplaced(tensor);
}

Status PutWriter::check_gpu_tensors(std::span<const Tensor> parts) const noexcept {
  if (!p2p::any_on_gpu(parts) &&
      std::ranges::none_of(parts, [this](const Tensor& part) { return is_misplaced(part); }))
    return {};
  if (local_.gpus == nullptr)
    return failure(Code::bad_argument, "put", "the tensor lies on a GPU, and this rank has none",
                   give_host_memory(parts.front()));
  try {
    for (const Tensor& part : parts) local_.gpus->check_host("put", part);
    local_.gpus->check_parts("put", parts);
    return {};
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "put", why.detail().message, why.detail().hint);
  }
}

Request PutWriter::put_or_refuse(const Tensor& tensor, Until until, Crowded crowded) noexcept {
  Request request;
  const bool same_shape =
      dynamic() ? tensor.shape().dims() == spec_.shape.dims() : tensor.shape() == spec_.shape;
  const bool fits = same_shape && tensor.dtype() == spec_.dtype && !lacks_memory(tensor);
  Status status = fits ? check_gpu_tensors(std::span(&tensor, 1)) : refuse_tensor(tensor);
  if (fits && status.ok()) return enqueue({.tensor = tensor, .until = until}, crowded);
  end_refused(request, status, crowded);
  return request;
}

p2p::OwnedBlock PutWriter::make_stage(std::uint64_t ticket, std::size_t bytes) {
  if (ticket != 0 && pending_.at(ticket).stage) return std::move(pending_.at(ticket).stage);
  if (dynamic()) return {local_.data, bytes};
  p2p::OwnedBlock block = pack_ ? std::move(pack_) : in_flight_.take_pack();
  if (!block) block = spare_ ? std::move(spare_) : p2p::OwnedBlock(local_.staging, bytes);
  return block;
}

const char* PutWriter::why_staged() const noexcept {
  if (why_not_.mapped != nullptr) return why_not_.mapped;
  if (why_not_.reached != nullptr) return why_not_.reached;
  if (is_mapped_.load(std::memory_order_relaxed))
    return "the tensor's GPU was not in use yet when the slot was attached to";
  return "the tensor lies on a GPU, and the path reaches host memory alone";
}

bool PutWriter::reached_by_nic(std::span<const Tensor> parts) noexcept {
  p2p::Channel& channel = *owner_.channel;
  if (parts.size() > p2p::Channel::kMostGpuParts) return false;
  for (const Tensor& part : parts) {
    if (part.bytes() == 0) continue;
    const bool is_reached =
        part.memory().is_gpu() ? channel.reaches_gpu(part) : part.dense() && reachable(part);
    if (!is_reached) return false;
  }
  by_nic_.store(true, std::memory_order_relaxed);
  return true;
}

Status PutWriter::staging_verdict(std::span<const Tensor> parts) noexcept {
  if (!local_.require_gdr && staged_because_.load(std::memory_order_relaxed) != nullptr) return {};
  std::string detail;
  for (const Tensor& part : parts)
    if (part.memory().is_gpu() && part.bytes() != 0 && detail.empty())
      (void)owner_.channel->reaches_gpu(part, &detail);
  if (!detail.empty()) {
    why_not_.reached = "the NIC does not reach the memory of the tensor's GPU";
    local_.log->info(Subsystem::slot, "puts into slot \"{}\" of rank {} from a GPU: {}", spec_.name,
                     owner_.rank, detail);
  }
  if (!local_.require_gdr) return {};
  return failure(Code::unreachable, "put",
                 formatted("WEFT_REQUIRE=gdr: the tensor would be staged: {}{}{}", why_staged(),
                           detail.empty() ? "" : ": ", detail),
                 "fix this, or unset WEFT_REQUIRE to take what there is");
}

Status PutWriter::begin_staging(std::uint64_t ticket, std::span<const Tensor> parts,
                                const p2p::cuda::StreamPoint* after) noexcept {
  try {
    if (!gpu_sources_) gpu_sources_ = std::make_unique<p2p::GpuSources>(local_);
    if (gpu_sources_->has_begun(ticket)) return {};
    if (Status status = staging_verdict(parts); !status.ok()) return status;
    log_staged(why_staged());
    const std::size_t bytes = dynamic() ? parts.front().bytes() : bytes_;
    const auto in_chunks = chunks_ ? chunk_stage(ticket) : nullptr;
    p2p::OwnedBlock stage = in_chunks ? p2p::OwnedBlock() : make_stage(ticket, bytes);
    // Its copy would have to pin it, or, where the driver refuses that, keeps this thread waiting
    // until the stream has come to the put.
    const auto pinned =
        local_.gpus->pins().is_pinned((in_chunks ? *in_chunks : stage).block().chunk);
    const bool must_pin = streams_ && !pinned && local_.gpus->any_stream_waits(true);
    const bool is_early = after != nullptr && !pinned.value_or(false) && !after->poll();
    if (must_pin || is_early) {
      if (!in_chunks) (dynamic() ? pending_.at(ticket).stage : spare_) = std::move(stage);
      return {};
    }
    if (in_chunks)
      gpu_sources_->begin_chunks(ticket, parts, in_chunks, chunks_->cut.bytes, after);
    else
      gpu_sources_->begin(ticket, parts, std::move(stage), after);
    if (const std::string why = local_.gpus->pins().take_refusal(); !why.empty())
      local_.log->warn(Subsystem::slot, "copies to and from GPUs keep their callers waiting: {}",
                       why);
    return {};
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "put", why.detail().message, why.detail().hint);
  }
}

void PutWriter::stage_ahead(std::uint64_t ticket) noexcept {
  if (ticket >= pending_.next()) return;
  const p2p::PendingPut& put = pending_.at(ticket);
  const auto parts = put.all();
  // Tensors in host memory that wait for a stream are copied within the call.
  if (put.after != nullptr && !p2p::all_on_gpu(parts)) return;
  // A failure is met, and told, when the put's turn has come.
  const bool is_mapped = mapped_ && mapped_->takes(parts);
  if (!put.cancelled && !is_mapped && p2p::any_on_gpu(parts) && !reached_by_nic(parts))
    (void)begin_staging(ticket, parts, put.after.get());
}

Status PutWriter::stage_from_gpu(const Moving& moving, p2p::OwnedBlock& into) noexcept {
  if (Status status = begin_staging(moving.ticket, moving.parts, moving.after); !status.ok())
    return status;
  is_staging_ = !gpu_sources_->has_begun(moving.ticket);
  if (is_staging_) return {};
  stage_ahead(moving.ticket + 1);
  const auto outcome = gpu_sources_->poll(moving.ticket);
  is_staging_ = !outcome;
  if (is_staging_) return {};
  if (!outcome->ok()) {
    gpu_sources_->drop(moving.ticket);
    return failure(outcome->code(), "put", outcome->detail().message, outcome->detail().hint);
  }
  into = gpu_sources_->take(moving.ticket);
  p2p::GpuCounters& counters = row_.gpu_counters();
  for (const Tensor& part : moving.parts)
    if (part.memory().is_gpu() && part.bytes() != 0) counters.device_copies.add(1);
  counters.staged_bytes.add(dynamic() ? moving.parts.front().bytes() : bytes_);
  return {};
}

}  // namespace weft::detail
