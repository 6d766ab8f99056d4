// Putting: into the slot's next buffer at once, or pending until there is a credit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "p2p/slot/grant.hpp"
#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {

using p2p::SlotLine;
using p2p::WaitEnd;

bool RemoteSlotState::has_credit() noexcept {
  const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
  const auto has_room = [&] {
    const std::uint64_t released = known_released_.load(std::memory_order_relaxed);
    return released >= sent || sent - released < spec_.depth;
  };
  // The owner writes the word, so reading it may fetch its line: only when what is known is used
  // up.
  if (!credits_ || has_room()) return true;
  const std::uint64_t word = credit_word().load(std::memory_order_seq_cst);
  if (word > known_released_.load(std::memory_order_relaxed) &&
      p2p::is_credible(word, sent_.load()))
    known_released_.store(word, std::memory_order_relaxed);
  return has_room();
}

Status RemoteSlotState::move(Moving& moving) noexcept {
  if (in_flight_.full()) [[unlikely]] {
    in_flight_.poll(*owner_.channel);
    moving.full = in_flight_.full();
    if (moving.full) return {};
  }
  const std::uint64_t sequence = sent_.load(std::memory_order_relaxed) + 1;
  const std::uint64_t started_ns = local_.recorder.start();
  p2p::PutWork work;
  const Tensor& tensor = moving.parts.front();
  if (moving.parts.size() == 1 && tensor.dense() && !dynamic() && reachable(tensor)) [[likely]] {
    work.source = tensor.data();
    work.tensor = &tensor;
  } else {
    const Status status = dynamic() ? announce(moving, work) : gather(moving, work);
    if (!status.ok()) {
      // Puts in flight may hold the room that is missing.
      moving.full = status.code() == Code::exhausted && !in_flight_.empty();
      return moving.full ? Status{} : status;
    }
  }
  // Shorter than the slot's own only in put_front().
  work.bytes = dynamic() || moving.parts.size() > 1 ? bytes_ : tensor.bytes();
  work.payload = at(payloads_, index_ * payload_stride_);
  work.sequence_word = at(lines_, index_ * sizeof(SlotLine));
  if (tails_.address != 0) [[unlikely]]
    work.with_tail = at(tails_, index_ * tail_stride_);
  work.sequence = sequence;
  work.notification_id = notification_id_;
  work.delivered = moving.until == Until::delivered;
  work.queue_pair = queue_pair_;
  work.stream = id_;
  work.depth = spec_.depth;
  if (moving.ticket != 0) [[unlikely]] {
    work.by_and_by = true;
    work.done = front_done_;
  }
  Status status = owner_.channel->put(work);
  if (!status.ok()) {
    moving.full = status.code() == Code::exhausted;
    if (moving.ticket != 0) front_done_ = work.done;
    if (!moving.full) return status;
    // The next attempt takes what was packed for this one.
    prepared_ = moving.ticket != 0 ? moving.ticket : next_ticket_;
    return {};
  }
  if (work.posted != 0) [[unlikely]]
    moving = start_put(moving, work);
  sent_.store(sequence, std::memory_order_relaxed);
  index_ = index_ + 1 == spec_.depth ? 0 : index_ + 1;
  counters_.transfers.add(1);
  counters_.bytes_moved.add(dynamic() ? tensor.bytes() : work.bytes);
  counters_.work_requests.add(work.requests);
  if (work.copied != 0) [[unlikely]]
    counters_.bytes_copied.add(work.copied);
  local_.recorder.data(stats::Event::put, owner_.rank, id_, sequence,
                       dynamic() ? tensor.bytes() : work.bytes, started_ns);
  // The credit word is read soon: fetch its line ahead.
  if (credits_ && sequence + 2 >= known_released_.load(std::memory_order_relaxed) + spec_.depth)
    __builtin_prefetch(credit_block_.data());
  return status;
}

Status RemoteSlotState::wrong_put(std::string_view what) const {
  if (dynamic())
    return failure(Code::mismatch, "put",
                   fmt::format("the tensor is {}, the slot takes {} of {} dimensions", what,
                               weft::name(spec_.dtype), spec_.shape.dims()),
                   "the sizes are free, dtype and number of dimensions are not");
  return failure(Code::mismatch, "put",
                 fmt::format("the tensor is {}, the slot holds {}{}", what, weft::name(spec_.dtype),
                             spec_.shape.text()),
                 "put a tensor of the slot's dtype and shape");
}

Status RemoteSlotState::overrun() const {
  return failure(Code::flow_overrun, "put",
                 fmt::format("the owner has not let go of tensor {} of this synchronous slot",
                             sent_.load() + 1 - spec_.depth),
                 "the loop does not guarantee consumption: use Flow::credits");
}

Request RemoteSlotState::put(const Tensor& tensor, Until until, Crowded crowded) noexcept {
  Request request;
  if (forked()) [[unlikely]] {
    SlotAccess::outcome(request) = fork_refusal("put");
    return request;
  }
  if (tensor.dtype() != spec_.dtype ||
      (dynamic() ? tensor.shape().dims() != spec_.shape.dims() : !(tensor.shape() == spec_.shape)))
      [[unlikely]] {
    SlotAccess::outcome(request) = wrong_put(tensor.text());
    return request;
  }
  if (dynamic() || pending_count_.load(std::memory_order_acquire) != 0)
    return enqueue({.tensor = tensor, .until = until}, crowded);
  if (!gate_.enter()) {
    SlotAccess::outcome(request) = usable("put");
    return request;
  }
  const bool gone = owner_.gone();
  const bool credit = !gone && has_credit();
  Moving moving{.parts = std::span(&tensor, 1), .until = until};
  if (credit) SlotAccess::outcome(request) = move(moving);
  gate_.leave();
  if (gone) SlotAccess::outcome(request) = peer_failure("put");
  if (moving.put_in_flight != nullptr) [[unlikely]]
    follow(moving, request);
  if (gone || (credit && !moving.full)) return request;
  if (!credit && spec_.flow != Flow::credits) {
    SlotAccess::outcome(request) = overrun();
    return request;
  }
  return enqueue({.tensor = tensor, .until = until}, crowded);
}

bool RemoteSlotState::may_put() noexcept {
  return has_credit() || gate_.is_shut() || owner_.gone();
}

Request RemoteSlotState::put_front(const Tensor& tensor) noexcept {
  return enqueue({.tensor = tensor, .until = Until::reusable}, Crowded::wait);
}

Request RemoteSlotState::put(std::span<const Tensor> parts, Until until) noexcept {
  Request request;
  if (forked()) [[unlikely]] {
    SlotAccess::outcome(request) = fork_refusal("put");
    return request;
  }
  std::int64_t elements = 0;
  bool same = true;
  for (const Tensor& part : parts) {
    elements += part.shape().elements();
    same = same && part.dtype() == spec_.dtype;
  }
  if (parts.empty() || !same || dynamic() || elements != spec_.shape.elements()) {
    SlotAccess::outcome(request) =
        dynamic() ? failure(Code::bad_argument, "put", "several tensors have no one shape",
                            "put them one by one, or into a slot of fixed shape")
                  : wrong_put(fmt::format("gathered from {} tensors, of {} elements in all{}",
                                          parts.size(), elements,
                                          same ? "" : " and not all of one dtype"));
    return request;
  }
  if (spec_.flow != Flow::credits && !has_credit()) {
    SlotAccess::outcome(request) = overrun();
    return request;
  }
  try {
    return enqueue({.parts = {parts.begin(), parts.end()}, .until = until}, Crowded::wait);
  } catch (const std::bad_alloc&) {
    SlotAccess::outcome(request) =
        failure(Code::exhausted, "put", "no memory to remember the tensors", "");
    return request;
  }
}

bool RemoteSlotState::is_crowded() const noexcept {
  // Announced tensors of a dynamic slot keep their places until they were read.
  const std::uint64_t places = dynamic() ? kMaxPending - spec_.depth : kMaxPending;
  return next_ticket_ - done_ticket_.load(std::memory_order_relaxed) > places;
}

void RemoteSlotState::wait_for_room() noexcept {
  const auto has_room = [this] {
    const std::lock_guard lock(pending_mutex_);
    drain();
    return !is_crowded() || !has_credit();
  };
  (void)local_.waiter.wait(
      has_room, [this] { return broken(); }, {},
      [this] { return about(stats::Operation::put, sent_.load(std::memory_order_relaxed) + 1); });
}

Request RemoteSlotState::enqueue(Pending pending, Crowded crowded) noexcept {
  Request request;
  std::unique_lock lock(pending_mutex_);
  if (is_crowded()) [[unlikely]] {
    drain();
    if (is_crowded() && crowded == Crowded::wait && has_credit()) {
      lock.unlock();
      wait_for_room();
      lock.lock();
    }
    if (is_crowded()) {
      SlotAccess::outcome(request) = failure(
          Code::exhausted, "put",
          fmt::format("{} puts are pending without a credit", next_ticket_ - done_ticket_ - 1),
          "wait for a request before putting more, or give the slot more depth");
      return request;
    }
  }
  if (!pending_) {
    pending_.reset(new (std::nothrow) PendingRing);
    if (!pending_) {
      prepared_ = 0;
      SlotAccess::outcome(request) =
          failure(Code::exhausted, "put", "no memory to keep a put pending", "");
      return request;
    }
  }
  const std::uint64_t ticket = next_ticket_++;
  pending.ticket = ticket;
  (*pending_)[ticket % kMaxPending] = std::move(pending);
  set_pending(pending_count_.load(std::memory_order_relaxed) + 1);
  drain();
  const bool begun = done_ticket_.load(std::memory_order_relaxed) >= ticket;
  if (begun && !dynamic() && !in_flight_.holds_up(ticket)) {
    SlotAccess::outcome(request) = outcome_of(ticket);
    return request;
  }
  SlotAccess::follow(request, self(), ticket);
  if (!begun) local_.want_service();
  return request;
}

bool RemoteSlotState::drain() noexcept {
  while (pending_count_.load(std::memory_order_relaxed) != 0) {
    const std::uint64_t ticket = done_ticket_.load(std::memory_order_relaxed) + 1;
    Pending& front = (*pending_)[ticket % kMaxPending];
    if (!front.cancelled) {
      if (!gate_.enter()) {
        fail_pending(usable("put"));
        return true;
      }
      const bool gone = owner_.gone();
      const bool credit = !gone && has_credit();
      if (credit && dynamic()) take_back_lent();
      Moving moving{.parts = front.parts.empty() ? std::span<const Tensor>(&front.tensor, 1)
                                                 : std::span<const Tensor>(front.parts),
                    .until = front.until,
                    .ticket = ticket};
      const Status status = credit ? move(moving) : Status{};
      gate_.leave();
      if (gone || !status.ok()) {
        fail_pending(gone ? peer_failure("put") : status);
        return true;
      }
      if (moving.full) local_.want_service();  // nobody rings when the queue has room
      if (!credit || moving.full) return false;
      front.sequence = sent_.load(std::memory_order_relaxed);
      if (moving.lent) {
        moving.put_in_flight->tensor = std::move(front.tensor);
        moving.put_in_flight->parts = std::move(front.parts);
      }
    }
    front.tensor = {};
    front.parts.clear();
    front_done_ = 0;
    done_ticket_.store(ticket, std::memory_order_release);
    set_pending(pending_count_.load(std::memory_order_relaxed) - 1);
  }
  return true;
}

void RemoteSlotState::fail_pending(const Status& why) noexcept {
  for (std::uint64_t ticket = done_ticket_.load(std::memory_order_relaxed) + 1;
       ticket < next_ticket_; ++ticket) {
    Pending& pending = (*pending_)[ticket % kMaxPending];
    pending.tensor = {};
    pending.parts.clear();
    pending.outcome = why;
  }
  front_done_ = 0;
  done_ticket_.store(next_ticket_ - 1, std::memory_order_release);
  set_pending(0);
}

Status RemoteSlotState::outcome_of(std::uint64_t ticket) const noexcept {
  if (pending_) {
    const Pending& pending = (*pending_)[ticket % kMaxPending];
    if (pending.ticket == ticket && !pending.outcome.ok()) return pending.outcome;
  }
  const Status failed = in_flight_.failure_of(ticket);
  return failed.ok() ? failed : in_flight_failure(failed);
}

bool RemoteSlotState::put_ended(std::uint64_t ticket) noexcept {
  if (dynamic()) return read_by_owner(ticket);
  if (done_ticket_.load(std::memory_order_acquire) < ticket) {
    if (!has_credit() && !gate_.is_shut() && !owner_.gone()) return false;
    const std::unique_lock lock(pending_mutex_, std::try_to_lock);
    if (lock.owns_lock()) drain();
    if (done_ticket_.load(std::memory_order_acquire) < ticket) return false;
  }
  return in_flight_.empty() || !is_flying(ticket);
}

Status RemoteSlotState::put_outcome(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_mutex_);
  return outcome_of(ticket);
}

Status RemoteSlotState::cancel_put(std::uint64_t ticket, bool& ended) noexcept {
  const std::lock_guard lock(pending_mutex_);
  if (done_ticket_.load(std::memory_order_relaxed) >= ticket) {
    if (!dynamic()) in_flight_.poll(*owner_.channel);
    ended = dynamic() ? is_read(ticket) : !in_flight_.holds_up(ticket);
    if (ended) return outcome_of(ticket);
    return failure(Code::bad_argument, "cancel",
                   dynamic() ? "the tensor was announced: its owner may be reading it"
                             : "the tensor is on its way",
                   "wait for the request");
  }
  Pending& pending = (*pending_)[ticket % kMaxPending];
  pending.cancelled = true;
  if (dynamic() && prepared_ == ticket) lent_[index_] = {};
  pending.tensor = {};
  pending.parts.clear();
  drain();
  return failure(Code::cancelled, "put", "cancelled before it was there", "");
}

void RemoteSlotState::drop_pending() noexcept {
  local_.strays.cut_off(id_);
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
  local_.recorder.control(stats::Event::credit_wanted, owner_.rank, id_, ticket);
  mesh_.send(owner_, p2p::CreditWantedMessage{.slot_id = slot_id_, .remote_id = id_});
}

bool RemoteSlotState::move_pending() noexcept {
  if (pending_count_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(pending_mutex_);
  drain();
  return pending_count_.load(std::memory_order_relaxed) != 0;
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
