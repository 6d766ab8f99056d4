// The source of a put: the memory itself, or a copy of it where the fabric can't reach it.
#include "p2p/slot/put/writer.hpp"

#include "base/fail.hpp"

namespace weft::detail {

bool PutWriter::reachable_outside(const Tensor& tensor) const noexcept {
  if (tensor.bytes() == 0) return true;
  if (tensor.arena() == local_.adopted.get())
    return owner_.channel->capabilities().copies ||
           owner_.channel->capabilities().peer_reaches_adopted.load();
  return local_.reachable(tensor.data(), tensor.extent());
}

void PutWriter::log_staged(const char* why) noexcept {
  if (staged_because_.load(std::memory_order_relaxed) != nullptr) return;
  staged_because_.store(why, std::memory_order_relaxed);
  local_.recorder.control(stats::Event::staged_put, owner_.rank, id_, bytes_);
  local_.log->info(Subsystem::slot, "puts into slot \"{}\" of rank {} are staged: {}", spec_.name,
                   owner_.rank, why);
}

Status PutWriter::gather(Moving moving, p2p::PutWork& work) noexcept {
  if (mapped_ && is_mapped_.load(std::memory_order_relaxed)) {
    is_staging_ = mapped_->is_held_up();
    if (is_staging_) return {};
    if (mapped_->takes(moving.parts)) return copy_mapped(moving, work);
  }
  if (chunks_ && goes_in_chunks(moving)) return put_in_chunks(moving, work);
  bool reached = true;
  for (const Tensor& part : moving.parts) reached = reached && reachable(part);
  if (reached || (p2p::any_on_gpu(moving.parts) && reached_by_nic(moving.parts))) {
    work.parts = moving.parts;
    return {};
  }
  work.source = pack_.data();
  if (moving.ticket != 0 && prepared_ == moving.ticket) return {};
  if (p2p::any_on_gpu(moving.parts)) {
    Status status = stage_from_gpu(moving, pack_);
    if (status.ok() && !is_staging_) prepared_ = moving.ticket;
    work.source = pack_.data();
    return status;
  }
  if (const Status status = make_pack(); !status.ok()) return status;
  work.source = pack_.data();
  std::byte* to = pack_.data();
  for (const Tensor& part : moving.parts) {
    p2p::pack(part, to);
    to += part.bytes();
  }
  counters_.bytes_copied.add(static_cast<std::uint64_t>(to - pack_.data()));
  return {};
}

Status PutWriter::make_pack() noexcept {
  if (!pack_) pack_ = in_flight_.take_pack();
  if (pack_) return {};
  try {
    pack_ = p2p::OwnedBlock(local_.staging, bytes_);
  } catch (...) {
    const Status why = caught_status();
    return failure(Code::exhausted, "put", why.detail().message, why.detail().hint);
  }
  log_staged("the tensor lies outside the arena (World::allocate, World::adopt)");
  return {};
}

Status PutWriter::announce(Moving moving, p2p::PutWork& work) noexcept {
  work.source = reinterpret_cast<const std::byte*>(&lending_->record(target_.index));
  if (prepared_ == moving.ticket) return {};
  const Tensor& tensor = moving.parts.front();
  p2p::OwnedBlock staged;
  if (p2p::any_on_gpu(moving.parts) && !reached_by_nic(moving.parts)) {
    Status status = stage_from_gpu(moving, staged);
    if (!status.ok() || is_staging_) return status;
  }
  const p2p::Lending::Lent lent =
      lending_->lend(*owner_.channel, tensor, target_.index, std::move(staged));
  if (lent.packed_because != nullptr) {
    log_staged(lent.packed_because);
    counters_.bytes_copied.add(tensor.bytes());
  }
  return lent.status;
}

}  // namespace weft::detail
