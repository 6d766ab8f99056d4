// Puts by the writer's GPU into the owner's buffers, which are mapped here.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/attach/slot_line.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::cuda::GpuWay;

void PutWriter::map_buffers(Deadline deadline) noexcept {
  if (!mapped_) return;
  const Deadline until = deadline.resolve(local_.waiter.default_timeout());
  p2p::MappedPuts::Way way{mapped_->offered()};
  if (way.way == GpuWay::mapped) {
    try {
      way = map_by_gpus(until);
    } catch (...) {
      way = {GpuWay::no_driver, text_or_empty([] { return caught_status().detail().message; })};
    }
  }
  settle_way(way);
}

void PutWriter::settle_way(const p2p::MappedPuts::Way& way) noexcept {
  // Without a path to a host's other ranks there is nothing that the owner does not know.
  if (mapped_->offered() == GpuWay::mapped)
    local_.progress.post(
        [&mesh = mesh_, &owner = owner_,
         message = p2p::GpuWayMessage{.way = way.way, .slot_id = slot_id_, .remote_id = id_}] {
          mesh.send(owner, message);
        });
  if (way.way == GpuWay::mapped) {
    gathers_ = queues_ = true;
    chunks_ = nullptr;  // the owner expects none
    is_mapped_.store(true, std::memory_order_relaxed);
    return;
  }
  why_not_.mapped = p2p::cuda::reason_of(way.way);
  {
    // A page that is still being copied is a use of the slot, which ends on another thread: puts
    // may begin under the mutex alone.
    const std::lock_guard lock(pending_.mutex());
    gathers_ = queues_ = mapped_->is_copying() || chunks_;
  }
  local_.log->info(Subsystem::slot, "puts into slot \"{}\" of rank {} are not mapped: {}{}{}",
                   spec_.name, owner_.rank, why_not_.mapped, way.detail.empty() ? "" : ": ",
                   way.detail);
}

p2p::MappedPuts::Way PutWriter::map_by_gpus(Deadline until) {
  if (local_.gpus == nullptr) return {GpuWay::no_driver};
  std::optional<p2p::MappedPuts::Way> first_refusal;
  bool any = false;
  for (const auto& gpu : local_.gpus->in_use("attach")) {
    p2p::MappedPuts::Way way = map_by(gpu, until);
    if (way.way == GpuWay::mapped)
      any = true;
    else if (!first_refusal)
      first_refusal = std::move(way);
  }
  if (first_refusal) why_not_.mapped = p2p::cuda::reason_of(first_refusal->way);
  return any ? p2p::MappedPuts::Way{} : *first_refusal;
}

p2p::MappedPuts::Way PutWriter::map_by(const std::shared_ptr<p2p::cuda::Gpu>& gpu, Deadline until) {
  p2p::cuda::PeerMemory& peers = local_.gpus->peers();
  if (auto way = mapped_->map(owner_.rank, gpu); way.way != GpuWay::mapped) return way;
  GpuWay proof = peers.proven(owner_.rank, mapped_->chunk(), gpu->ordinal());
  std::string detail;
  if (proof == GpuWay::unproven) {
    try {
      proof = prove(until);
    } catch (const Error& error) {
      proof = GpuWay::copy_failed;
      detail = error.detail().message;
    }
    // An answer that did not come, or a copy that failed, says nothing of the path.
    if (proof != GpuWay::not_answered && proof != GpuWay::copy_failed)
      peers.prove(owner_.rank, mapped_->chunk(), gpu->ordinal(), proof);
  }
  const std::lock_guard lock(pending_.mutex());
  if (proof == GpuWay::mapped) mapped_->accept();
  return {proof, std::move(detail)};
}

GpuWay PutWriter::prove(Deadline until) {
  const std::uint64_t nonce = p2p::make_nonce();
  const auto copied = [&](const auto& begin) {
    {
      const std::lock_guard lock(pending_.mutex());
      begin();
    }
    const auto outcome = p2p::wait_for_device(
        local_,
        [&] {
          const std::lock_guard lock(pending_.mutex());
          return mapped_->poll_page();
        },
        until, [&] { return about(stats::Operation::attach, 0); });
    if (outcome && outcome->ok()) return true;
    const std::lock_guard lock(pending_.mutex());
    mapped_->drop_all();
    return false;
  };
  if (!copied([&] { mapped_->begin_page(nonce); })) return GpuWay::copy_failed;
  if (!copied([&] { mapped_->begin_reading_page(); })) return GpuWay::copy_failed;
  {
    const std::lock_guard lock(pending_.mutex());
    if (!mapped_->page_came_back(nonce)) return GpuWay::writes_lost;
  }
  return ask_whether_seen(nonce, until);
}

void PutWriter::ask_owner(std::uint64_t nonce) {
  local_.progress.post(
      [&mesh = mesh_, &owner = owner_,
       question = p2p::GpuWayMessage{.slot_id = slot_id_, .remote_id = id_, .nonce = nonce}] {
        mesh.send(owner, question);
      });
}

GpuWay PutWriter::ask_whether_seen(std::uint64_t nonce, Deadline until) {
  ask_owner(nonce);
  const auto answered = [&] {
    if (!mapped_->answered(nonce)) local_.progress.help();
    return mapped_->answered(nonce).has_value();
  };
  (void)local_.waiter.wait(
      answered, [this] { return broken(); }, until,
      [&] { return about(stats::Operation::attach, 0); });
  const auto seen = mapped_->answered(nonce);
  if (!seen) return GpuWay::not_answered;
  return *seen ? GpuWay::mapped : GpuWay::not_seen;
}

void PutWriter::gpu_page_seen(const p2p::GpuPageSeenMessage& message) noexcept {
  if (!mapped_) return;
  mapped_->answer(message);
  local_.ring();
}

Status PutWriter::begin_mapped(std::uint64_t ticket, std::span<const Tensor> parts,
                               std::uint64_t buffer, const p2p::cuda::StreamPoint* after) noexcept {
  if (mapped_->has_begun(ticket)) return {};
  try {
    counters_.bytes_copied.add(mapped_->begin(ticket, parts, buffer, after));
    if (const std::string why = local_.gpus->pins().take_refusal(); !why.empty())
      local_.log->warn(Subsystem::slot, "copies to and from GPUs keep their callers waiting: {}",
                       why);
    return {};
  } catch (...) {
    const Status why = caught_status();
    return failure(why.code(), "put", why.detail().message, why.detail().hint);
  }
}

void PutWriter::map_ahead(std::uint64_t ticket) noexcept {
  if (ticket >= pending_.next()) return;
  const p2p::PendingPut& put = pending_.at(ticket);
  const auto parts = put.all();
  // Not before the owner has let go of that buffer too.
  const bool is_host_late = put.after != nullptr && !p2p::all_on_gpu(parts);
  if (put.cancelled || is_host_late || !mapped_->takes(parts) || !credits_.has_two(credit_word()))
    return;
  const std::uint64_t next = target_.index + 1 == spec_.depth ? 0 : target_.index + 1;
  // A failure is met, and told, when the put's turn has come.
  (void)begin_mapped(ticket, parts, next, put.after.get());
}

Status PutWriter::copy_mapped(const Moving& moving, p2p::PutWork& work) noexcept {
  if (Status status = begin_mapped(moving.ticket, moving.parts, target_.index, moving.after);
      !status.ok())
    return status;
  map_ahead(moving.ticket + 1);
  const auto outcome = mapped_->poll(moving.ticket);
  is_staging_ = !outcome;
  if (is_staging_) return {};
  if (!outcome->ok())
    return failure(outcome->code(), "put", outcome->detail().message, outcome->detail().hint);
  for (const Tensor& part : moving.parts)
    if (part.bytes() != 0) row_.gpu_counters().device_copies.add(1);
  // The owner is still to be told.
  mark_ = credits_.sent() + 1;
  work.source = reinterpret_cast<const std::byte*>(&mark_);
  work.bytes = sizeof mark_;
  work.payload =
      at(target_.lines, target_.index * sizeof(p2p::SlotLine) + offsetof(p2p::SlotLine, payload));
  return {};
}

bool PutWriter::is_copying() noexcept {
  if (!mapped_) return false;
  const std::lock_guard lock(pending_.mutex());
  return mapped_->is_copying();
}

}  // namespace weft::detail
