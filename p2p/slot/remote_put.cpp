// Putting: into the slot's next buffer at once, or pending until there is a credit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {

using p2p::SlotLine;
using p2p::WaitEnd;

bool RemoteSlotState::has_credit() noexcept {
  const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
  // The owner writes the word, so reading it may fetch its line: only when what is known is used
  // up.
  if (!credits_ || sent - let_go_known_.load(std::memory_order_relaxed) < spec_.depth) return true;
  const std::uint64_t word = credit_word().load(std::memory_order_seq_cst);
  if (word > let_go_known_.load(std::memory_order_relaxed))
    let_go_known_.store(word, std::memory_order_relaxed);
  return sent - let_go_known_.load(std::memory_order_relaxed) < spec_.depth;
}

Status RemoteSlotState::move(const Tensor& tensor) noexcept {
  const std::byte* source = tensor.data();
  if (!local_.zero_copy ||
      (tensor.arena() != local_.data.get() && !local_.reachable(source, bytes_))) [[unlikely]] {
    const auto copy = staged(tensor);
    if (!copy.ok()) return copy.status();
    source = *copy;
  }
  const std::uint64_t sequence = sent_.load(std::memory_order_relaxed) + 1;
  const std::uint64_t line = index_ * sizeof(SlotLine);
  p2p::PutWork work;
  work.source = source;
  work.bytes = bytes_;
  work.payload = stride_ == 0 ? at(lines_, line + offsetof(SlotLine, payload))
                              : at(buffers_, index_ * stride_);
  work.sequence_word = at(lines_, line);
  work.sequence = sequence;
  work.choice = &*copy_choice_;
  Status status = owner_.channel->put(work);
  if (!status.ok()) [[unlikely]] {
    queue_full_ = status.code() == Code::exhausted;
    return status;
  }
  sent_.store(sequence, std::memory_order_relaxed);
  index_ = index_ + 1 == spec_.depth ? 0 : index_ + 1;
  counters_.transfers.add(1);
  counters_.bytes_moved.add(bytes_);
  counters_.work_requests.add(1);
  // When the next look at the credit word is near, its line had better be here.
  if (credits_ && sequence + 2 >= let_go_known_.load(std::memory_order_relaxed) + spec_.depth)
    __builtin_prefetch(credit_block_.data());
  return status;
}

Status RemoteSlotState::wrong_put(const Tensor& tensor) const {
  if (spec_.writer != Writer::peer)
    return failure(Code::bad_argument, "put", "this slot is written by its owner",
                   "view() or get() it");
  return failure(Code::mismatch, "put",
                 fmt::format("the tensor is {}, the slot holds {}{}", tensor.text(),
                             weft::name(spec_.dtype), spec_.shape.text()),
                 "put a tensor of the slot's dtype and shape");
}

Request RemoteSlotState::put(const Tensor& tensor) noexcept {
  Request request;
  if (spec_.writer != Writer::peer || tensor.dtype() != spec_.dtype ||
      !(tensor.shape() == spec_.shape)) [[unlikely]] {
    request.status_ = wrong_put(tensor);
    return request;
  }
  if (pending_count_.load(std::memory_order_acquire) != 0) return enqueue(tensor);
  if (!gate_.enter()) {
    request.status_ = usable();
    return request;
  }
  const bool gone = owner_.gone();
  const bool credit = !gone && has_credit();
  if (credit) request.status_ = move(tensor);
  gate_.leave();
  if (gone) request.status_ = fate_failure("put");
  if (gone || (credit && (request.status_.ok() || !take_queue_full()))) return request;
  if (!credit && spec_.flow != Flow::credits) {
    request.status_ =
        failure(Code::flow_overrun, "put",
                fmt::format("the owner has not let go of tensor {} of this synchronous slot",
                            sent_.load() + 1 - spec_.depth),
                "the loop does not guarantee consumption: use Flow::credits");
    return request;
  }
  return enqueue(tensor);
}

Result<const std::byte*> RemoteSlotState::staged(const Tensor& tensor) noexcept {
  if (!staging_) {
    try {
      staging_ = p2p::OwnedBlock(local_.hidden, bytes_);
    } catch (const Error& error) {
      return error.status();
    }
    local_.log->info(Subsystem::slot, "puts into slot \"{}\" of rank {} are staged: {}", spec_.name,
                     owner_.rank,
                     local_.zero_copy ? "the tensor lies outside the arena (World::allocate)"
                                      : "WEFT_ZERO_COPY=0");
  }
  std::memcpy(staging_.data(), tensor.data(), bytes_);
  counters_.bytes_copied.add(bytes_);
  return static_cast<const std::byte*>(staging_.data());
}

Request RemoteSlotState::enqueue(const Tensor& tensor) noexcept {
  Request request;
  const std::lock_guard lock(pending_mutex_);
  const std::uint64_t ticket = next_ticket_;
  if (ticket - done_ticket_.load(std::memory_order_relaxed) > kMaxPending) {
    request.status_ = failure(
        Code::exhausted, "put", fmt::format("{} puts are pending without a credit", kMaxPending),
        "wait for a request before putting more, or give the slot more depth");
    return request;
  }
  pending_[ticket % kMaxPending] = {tensor, ticket, false, {}};
  ++next_ticket_;
  pending_count_.fetch_add(1, std::memory_order_release);
  request.remote_ = this;
  request.ticket_ = ticket;
  local_.want_service();
  return request;
}

bool RemoteSlotState::drain() noexcept {
  while (pending_count_.load(std::memory_order_relaxed) != 0) {
    const std::uint64_t ticket = done_ticket_.load(std::memory_order_relaxed) + 1;
    Pending& front = pending_[ticket % kMaxPending];
    if (!front.cancelled) {
      if (!gate_.enter()) {
        fail_pending(usable());
        return true;
      }
      const bool gone = owner_.gone();
      const bool credit = !gone && has_credit();
      const Status status = credit ? move(front.tensor) : Status{};
      gate_.leave();
      if (!status.ok() && take_queue_full()) {
        local_.want_service();  // nobody rings when the queue has room
        return false;
      }
      if (gone || !status.ok()) {
        fail_pending(gone ? fate_failure("put") : status);
        return true;
      }
      if (!credit) return false;
    }
    front.tensor = {};
    done_ticket_.store(ticket, std::memory_order_release);
    pending_count_.fetch_sub(1, std::memory_order_release);
  }
  return true;
}

void RemoteSlotState::fail_pending(const Status& why) noexcept {
  for (std::uint64_t ticket = done_ticket_.load(std::memory_order_relaxed) + 1;
       ticket < next_ticket_; ++ticket) {
    Pending& pending = pending_[ticket % kMaxPending];
    pending.tensor = {};
    pending.outcome = why;
  }
  done_ticket_.store(next_ticket_ - 1, std::memory_order_release);
  pending_count_.store(0, std::memory_order_release);
}

Status RemoteSlotState::outcome_of(std::uint64_t ticket) const noexcept {
  const Pending& pending = pending_[ticket % kMaxPending];
  return pending.ticket == ticket ? pending.outcome : Status{};
}

bool RemoteSlotState::put_ended(std::uint64_t ticket) noexcept {
  if (done_ticket_.load(std::memory_order_acquire) >= ticket) return true;
  if (!has_credit() && !gate_.is_shut() && !owner_.gone()) return false;
  const std::unique_lock lock(pending_mutex_, std::try_to_lock);
  if (lock.owns_lock()) drain();
  return done_ticket_.load(std::memory_order_acquire) >= ticket;
}

Status RemoteSlotState::put_outcome(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_mutex_);
  return outcome_of(ticket);
}

Status RemoteSlotState::wait_put(std::uint64_t ticket, Deadline deadline) noexcept {
  const WaitEnd end = local_.waiter.wait([&] { return put_ended(ticket); },
                                         [this] { return !mesh_.fate(needs_).ok(); }, deadline);
  if (end == WaitEnd::ready) return put_outcome(ticket);
  if (end == WaitEnd::broken) return fate_failure("put");
  ErrorDetail detail =
      failure(Code::timeout, "put",
              fmt::format("rank {} (host {}) has not let go of an earlier tensor", owner_.rank,
                          owner_.host()),
              "is the owner at the same step? the put stays pending; cancel() ends it")
          .detail();
  detail.sequence_expected = sent_.load() + 1 - spec_.depth;
  detail.sequence_seen = let_go_known_.load();
  return Status(std::move(detail));
}

Status RemoteSlotState::cancel_put(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_mutex_);
  if (done_ticket_.load(std::memory_order_relaxed) >= ticket) return outcome_of(ticket);
  Pending& pending = pending_[ticket % kMaxPending];
  pending.cancelled = true;
  pending.tensor = {};
  drain();
  return failure(Code::cancelled, "put", "cancelled before it began", "");
}

void RemoteSlotState::drop_pending() noexcept {
  const std::lock_guard lock(pending_mutex_);
  fail_pending(failure(Code::closed, "put", "this end was closed before the owner gave a credit",
                       "wait for the request before closing"));
}

void RemoteSlotState::ask_for_credit(std::uint64_t ticket) noexcept {
  const auto now = Deadline::Clock::now();
  if (held_up_ != ticket) {
    held_up_ = ticket;
    held_up_since_ = now;
  }
  if (now - held_up_since_ < p2p::kHeldUp) {
    local_.progress.turn_soon();
    return;
  }
  asked_for_ = ticket;
  mesh_.send(owner_, p2p::CreditWantedMessage{.slot_id = slot_id_, .remote_id = id_});
}

bool RemoteSlotState::serve_pending() noexcept {
  if (pending_count_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(pending_mutex_);
  const std::uint64_t done = done_ticket_.load(std::memory_order_relaxed);
  drain();
  if (done_ticket_.load(std::memory_order_relaxed) != done) local_.ring();
  const bool pending = pending_count_.load(std::memory_order_relaxed) != 0;
  const std::uint64_t front = done_ticket_.load(std::memory_order_relaxed) + 1;
  if (pending && spec_.depth > p2p::kReportsAllUpTo && asked_for_ != front) ask_for_credit(front);
  return pending;
}

}  // namespace weft::detail
