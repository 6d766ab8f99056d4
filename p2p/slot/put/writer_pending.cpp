// Puts that are pending: they begin when there is a credit and the fabric takes them.
#include <new>
#include <utility>

#include "base/formatted.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft::detail {

bool PutWriter::is_crowded() const noexcept {
  // Announced tensors of a dynamic slot keep their places until they were read.
  return pending_.is_full(dynamic() ? kMaxPending - spec_.depth : kMaxPending);
}

void PutWriter::wait_for_room() noexcept {
  const auto has_room = [this] {
    const std::lock_guard lock(pending_.mutex());
    drain();
    return (queue_graph_puts() && !is_crowded()) || !has_credit();
  };
  (void)local_.waiter.wait(
      has_room, [this] { return broken(); }, {},
      [this] { return about(stats::Operation::put, credits_.sent() + 1); });
}

Request PutWriter::enqueue(p2p::PendingPut pending, Crowded crowded) noexcept {
  Request request;
  std::unique_lock lock(pending_.mutex());
  const auto has_no_room = [&] { return !queue_graph_puts() || is_crowded(); };
  if (has_no_room()) [[unlikely]] {
    drain();
    if (has_no_room() && crowded == Crowded::wait && has_credit()) {
      lock.unlock();
      wait_for_room();
      lock.lock();
    }
    if (has_no_room()) {
      const Status why = failure(Code::exhausted, "put",
                                 formatted("{} puts are pending without a credit", pending_.open()),
                                 "wait for a request before putting more, or give the slot more "
                                 "depth");
      end_refused(request, why, crowded);
      return request;
    }
  }
  if (has_graphs() && !streams_->failure.ok()) [[unlikely]] {
    // A replay's put has failed since the call began: this one must not take its place.
    const Status failed = std::exchange(streams_->failure, {});
    end_refused(request, failed, crowded);
    return request;
  }
  if (!pending_.prepare()) {
    prepared_ = 0;
    end_refused(request, failure(Code::exhausted, "put", "no memory to keep a put pending", ""),
                crowded);
    return request;
  }
  // Once a put may fail halfway, the next one is to wait for what it has left under way.
  if (chunks_ && (pending.tensor.memory().is_gpu() || p2p::any_on_gpu(pending.parts)))
    queues_ = true;
  const std::uint64_t ticket = pending_.add(std::move(pending));
  drain();
  const bool begun = pending_.done(std::memory_order_relaxed) >= ticket;
  if (begun && !dynamic() && !in_flight_.holds_up(ticket)) {
    keep_outcome(request, outcome_of(ticket));
    return request;
  }
  SlotAccess::follow(request, *this, life_, ticket);
  if (!begun) local_.want_service();
  return request;
}

bool PutWriter::front_has_credit(std::uint64_t ticket) noexcept {
  if (flow_check_.awaits(ticket)) return false;
  if (has_credit()) return true;
  if (spec_.flow != Flow::credits) flow_check_.open(ticket);
  return false;
}

void PutWriter::flow_answered(const p2p::FlowAnswerMessage& answer) noexcept {
  if (pending_.count(std::memory_order_acquire) == 0) return;
  {
    const std::lock_guard lock(pending_.mutex());
    if (answer.ticket != pending_.front_ticket() || !flow_check_.awaits(answer.ticket)) return;
    flow_check_.close();
    credits_.learn_of(answer.released);
    if (!has_credit()) fail_pending(overrun());
    drain();
  }
  local_.ring();
}

void PutWriter::fail_pending(const Status& why) noexcept {
  front_done_ = 0;
  if (gpu_sources_) gpu_sources_->drop_all();
  if (chunks_) chunks_->drop();
  if (mapped_) mapped_->drop_all();
  if (gpu_sources_ || mapped_) local_.want_service();  // until the copies have ended
  pending_.fail_all(unseen(why, 0));
}

Status PutWriter::outcome_of(std::uint64_t ticket) const noexcept {
  if (Status outcome = pending_.outcome(ticket); !outcome.ok()) return outcome;
  const Status failed = in_flight_.failure_of(ticket);
  return failed.ok() ? failed : in_flight_failure(failed);
}

Status PutWriter::put_outcome(std::uint64_t ticket, Deadline deadline) noexcept {
  Status failed;
  {
    const std::lock_guard lock(pending_.mutex());
    if (Status outcome = pending_.outcome(ticket); !outcome.ok()) {
      look_at(outcome);
      return outcome;
    }
    failed = in_flight_.failure_of(ticket);
  }
  if (failed.ok()) return failed;
  // The path tells that it has ended, often before the mesh knows of the peer's last word.
  return in_flight_failure(mesh_.disconnected(owner_.rank, failed, deadline));
}

bool PutWriter::put_ended(std::uint64_t ticket) noexcept {
  if (p2p::GraphPuts::is_of_graph(ticket)) [[unlikely]]
    return true;  // for wait() to say that it is none of its own
  if (!has_ended(ticket)) return false;
  if (unseen_.is_kept()) [[unlikely]] {
    const std::lock_guard lock(pending_.mutex());
    look_at(pending_.outcome(ticket));
  }
  return true;
}

bool PutWriter::has_ended(std::uint64_t ticket) noexcept {
  if (dynamic()) return read_by_owner(ticket);
  if (pending_.done(std::memory_order_acquire) < ticket) {
    if (!has_credit() && !gate_.is_shut() && !owner_.gone()) return false;
    const std::unique_lock lock(pending_.mutex(), std::try_to_lock);
    if (lock.owns_lock()) drain();
    if (pending_.done(std::memory_order_acquire) < ticket) return false;
  }
  return in_flight_.empty() || !is_in_flight(ticket);
}

bool PutWriter::read_by_owner(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_.mutex());
  if (pending_.done(std::memory_order_relaxed) < ticket) drain();
  return is_read(ticket);
}

bool PutWriter::is_read(std::uint64_t ticket) noexcept {
  p2p::PendingPut& pending = pending_.at(ticket);
  if (pending.ticket != ticket || pending.cancelled || !pending.outcome.ok()) return true;
  if (pending_.done(std::memory_order_relaxed) < ticket) return false;
  // Checked before the word: what the owner has read before it closed its end counts as read.
  const bool is_over = gate_.is_shut() || owner_.gone();
  credits_.learn(credit_word());
  lending_->take_back(credits_.released());
  if (lending_->is_taken_back(pending.sequence)) return true;
  // If the owner is gone or has closed, no rank reads the tensor any more.
  Status why = is_over ? usable("put") : Status{};
  if (why.ok()) return false;
  pending.outcome = std::move(why);
  return true;
}

Status PutWriter::cancel_put(std::uint64_t ticket, bool& ended) noexcept {
  if (p2p::GraphPuts::is_of_graph(ticket)) {
    ended = false;
    return put_of_graph("cancel");
  }
  const std::lock_guard lock(pending_.mutex());
  return cancel_locked(ticket, ended);
}

Status PutWriter::cancel_locked(std::uint64_t ticket, bool& ended) noexcept {
  const bool is_copied = mapped_ && mapped_->has_begun(ticket);
  const auto is_partly_there = [&] { return chunks_ && chunks_->has_begun(ticket); };
  if (is_copied || is_partly_there()) drain();
  if (pending_.done(std::memory_order_relaxed) >= ticket) {
    if (!dynamic()) in_flight_.poll(*owner_.channel);
    ended = dynamic() ? is_read(ticket) : !in_flight_.holds_up(ticket);
    if (ended) {
      look_at(pending_.outcome(ticket));
      return outcome_of(ticket);
    }
    return failure(Code::bad_argument, "cancel",
                   dynamic() ? "the tensor was announced: its owner may be reading it"
                             : "the tensor is on its way",
                   "wait for the request");
  }
  if (is_copied) {
    ended = false;
    return failure(Code::bad_argument, "cancel", "a GPU copies the tensor to the owner's",
                   "wait for the request");
  }
  if (is_partly_there()) {
    ended = false;
    return failure(Code::bad_argument, "cancel", "the tensor is on its way",
                   "wait for the request");
  }
  if (chunks_ && chunks_->put.ticket == ticket) chunks_->drop();
  p2p::PendingPut& pending = pending_.at(ticket);
  pending.cancelled = true;
  if (dynamic() && prepared_ == ticket) lending_->forget(target_.index);
  if (gpu_sources_) {
    gpu_sources_->drop(ticket);
    local_.want_service();
  }
  pending.release_source();
  drain();
  return failure(Code::cancelled, "put", "cancelled before it was there", "");
}

void PutWriter::drop_pending() noexcept {
  RemoteEnd::drop_pending();
  unseen_.finish();
  const std::lock_guard lock(pending_.mutex());
  drop_streams();
  fail_pending(
      failure(Code::closed, "put",
              "this end was closed before the put began: the owner gave no credit, or a GPU's "
              "tensor was still being copied",
              "wait for the request before closing"));
  if (!has_graphs()) return;
  streams_->graphs->is_closed = true;
  (void)move_graphs(*streams_->graphs);
  streams_wait_.store(true, std::memory_order_release);
  local_.want_service();  // until no put is under way
}

void PutWriter::ask_for_credit(std::uint64_t ticket) noexcept {
  if (!held_up_.must_ask(ticket)) {
    local_.progress.turn_soon();
    return;
  }
  local_.recorder.control(stats::Event::credit_wanted, owner_.rank, id_, credits_.sent() + 1);
  mesh_.send(owner_, p2p::CreditWantedMessage{.slot_id = slot_id_, .remote_id = id_});
}

bool PutWriter::move_pending() noexcept {
  if (pending_.count(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(pending_.mutex());
  drain();
  return pending_.count(std::memory_order_relaxed) != 0;
}

bool PutWriter::serve_pending() noexcept {
  const bool is_unseen = static_cast<int>(unseen_.serve()) + static_cast<int>(serve_streams()) != 0;
  if (pending_.count(std::memory_order_acquire) == 0) return is_unseen;
  const std::lock_guard lock(pending_.mutex());
  const std::uint64_t done = pending_.done(std::memory_order_relaxed);
  drain();
  if (pending_.done(std::memory_order_relaxed) != done) local_.ring();
  const bool pending = pending_.count(std::memory_order_relaxed) != 0;
  const std::uint64_t front = pending_.front_ticket();
  if (pending && flow_check_.must_ask(front))
    mesh_.send(owner_,
               p2p::FlowQuestionMessage{.slot_id = slot_id_, .remote_id = id_, .ticket = front});
  if (pending && spec_.flow == Flow::credits && spec_.depth > p2p::kReportsAllUpTo &&
      !held_up_.was_asked_for(front))
    ask_for_credit(front);
  return pending || is_unseen;
}

}  // namespace weft::detail
