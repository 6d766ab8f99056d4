// Putting into the slot's next buffer, at once or from the pending queue.
#include "p2p/slot/put/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/grant.hpp"
#include "p2p/slot/attach/slot_line.hpp"

namespace weft::detail {

using p2p::SlotLine;
using p2p::WaitEnd;

void PutWriter::take_grant(const p2p::AttachedMessage& message, const p2p::Contract& declared,
                           const p2p::GrantedMemory& memory) {
  if (declared.placement == Placement::dynamic)
    lending_ = std::make_unique<p2p::Lending>(local_, declared.depth, message.sequence);
  gathers_ = queues_ = declared.placement == Placement::dynamic;
  spec_ = declared.slot_spec();
  bytes_ = p2p::payload_bytes(spec_);
  if (const auto cut = p2p::granted_chunks(message, declared); cut && cut->count > 1) {
    const bool owner_looks = message.on_gpu != 0;
    chunks_ = std::make_unique<p2p::ChunkedPuts>(
        p2p::ChunkedPuts{.cut = *cut,
                         .words = memory.chunk_words,
                         .notification_id = message.chunk_id,
                         .owner_looks = owner_looks,
                         .values = std::vector(cut->words(), message.chunks_above)});
    gathers_ = queues_ = owner_looks;
  }
  if (!owner_.channel->capabilities().copies)
    in_flight_.reserve(declared.depth +
                       (chunks_ ? static_cast<std::uint32_t>(chunks_->cut.count) : 0));
  const bool by_nic = message.on_gpu != 0 && message.gpu_way == p2p::cuda::GpuWay::nic;
  by_nic_.store(by_nic, std::memory_order_relaxed);
  if (message.on_gpu != 0 && !by_nic)
    mapped_ = std::make_unique<p2p::MappedPuts>(local_, gate_, message, bytes_);
  credits_.begin(spec_.flow == Flow::credits || local_.check_flow, spec_.depth, message.released,
                 message.sequence);
  const bool in_lines = message.stride == 0;
  target_ = {.payloads = in_lines ? at(memory.lines, offsetof(SlotLine, payload)) : memory.buffers,
             .payload_stride = in_lines ? sizeof(SlotLine) : message.stride,
             .lines = memory.lines,
             .tails = memory.tails,
             .tail_stride = message.tail_stride,
             .notification_id = message.notification_id,
             .index = message.sequence % spec_.depth};
}

Status PutWriter::move(Moving& moving) noexcept {
  if (in_flight_.full()) [[unlikely]] {
    in_flight_.poll(*owner_.channel);
    moving.full = in_flight_.full();
    if (moving.full) return {};
  }
  const std::uint64_t sequence = credits_.sent() + 1;
  const std::uint64_t started_ns = local_.recorder.start();
  p2p::PutWork work;
  const Tensor& tensor = moving.parts.front();
  // Shorter than the slot's own only in put_front().
  const std::size_t moved = !dynamic() && moving.parts.size() > 1 ? bytes_ : tensor.bytes();
  work.bytes = dynamic() ? bytes_ : moved;
  work.payload = at(target_.payloads, target_.index * target_.payload_stride);
  if (target_.tails.address != 0) [[unlikely]]
    work.with_tail = at(target_.tails, target_.index * target_.tail_stride);
  if (moving.parts.size() == 1 && tensor.dense() && !gathers_ && reachable(tensor)) [[likely]] {
    work.source = tensor.data();
    work.tensor = &tensor;
  } else {
    const Status status = dynamic() ? announce(moving, work) : gather(moving, work);
    if (is_staging_) {
      is_staging_ = false;
      moving.full = true;
      return {};
    }
    if (!status.ok()) {
      // Puts in flight may hold the room that is missing.
      moving.full = status.code() == Code::exhausted && !in_flight_.empty();
      return moving.full ? Status{} : status;
    }
  }
  work.sequence_word = at(target_.lines, target_.index * sizeof(SlotLine));
  work.sequence = sequence;
  work.notification_id = target_.notification_id;
  work.delivered = moving.until == Until::delivered;
  work.more = moving.more;
  work.queue_pair = target_.queue_pair;
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
    prepared_ = moving.ticket != 0 ? moving.ticket : pending_.next();
    return {};
  }
  // Where its source is free again, most often nothing of a put is left to be followed.
  const bool ends_later = moving.until == Until::delivered && !dynamic();
  if (work.posted != 0 && (!work.source_is_free || ends_later)) [[unlikely]]
    moving = start_put(moving, work);
  credits_.count_put(sequence);
  target_.index = target_.index + 1 == spec_.depth ? 0 : target_.index + 1;
  counters_.transfers.add(1);
  counters_.bytes_moved.add(moved);
  counters_.work_requests.add(work.requests);
  if (work.copied != 0) [[unlikely]]
    counters_.bytes_copied.add(work.copied);
  local_.recorder.data(stats::Event::put, owner_.rank, id_, sequence, moved, started_ns);
  // The credit word is read soon: fetch its line ahead.
  if (credits_.is_near_the_end(sequence)) __builtin_prefetch(credit_block_.data());
  return status;
}

Status PutWriter::wrong_put(std::string_view what) const noexcept {
  if (dynamic())
    return failure(Code::mismatch, "put",
                   formatted("the tensor is {}, the slot takes {} of {} dimensions", what,
                             weft::name(spec_.dtype), spec_.shape.dims()),
                   "the sizes are free, dtype and number of dimensions are not");
  return failure(Code::mismatch, "put", text_or_empty([&] {
                   return fmt::format("the tensor is {}, the slot holds {}{}", what,
                                      weft::name(spec_.dtype), spec_.shape.text());
                 }),
                 "put a tensor of the slot's dtype and shape");
}

Status PutWriter::refuse_tensor(const Tensor& tensor) const noexcept {
  if (lacks_memory(tensor))
    return failure(Code::bad_argument, "put",
                   text_or_empty([&] { return no_host_memory("the tensor", tensor); }),
                   give_host_memory(tensor));
  return wrong_put(text_or_empty([&] { return tensor.text(); }));
}

Status PutWriter::overrun() const noexcept {
  return failure(Code::flow_overrun, "put",
                 formatted("the owner has not let go of tensor {} of this synchronous slot",
                           credits_.sent() + 1 - spec_.depth),
                 "the loop does not guarantee consumption: use Flow::credits");
}

void PutWriter::end_refused(Request& request, const Status& why, Crowded crowded) noexcept {
  if (crowded == Crowded::wait)
    keep_outcome(request, unseen(why, pending_.count(std::memory_order_acquire)));
  else
    SlotAccess::outcome(request) = why;
}

Request PutWriter::put(const Tensor& tensor, Until until, Crowded crowded) noexcept {
  Request request;
  if (over()) [[unlikely]] {
    SlotAccess::outcome(request) = refusal("put");
    return request;
  }
  if (has_graphs()) [[unlikely]] {
    p2p::cuda::reap_graphs();
    if (const Status failed = take_stream_failure(); !failed.ok()) {
      end_refused(request, failed, crowded);
      return request;
    }
  }
  if (tensor.dtype() != spec_.dtype ||
      (dynamic() ? tensor.shape().dims() != spec_.shape.dims()
                 : !(tensor.shape() == spec_.shape)) ||
      lacks_host_memory(tensor) || (tensor.storage() == nullptr && is_misplaced(tensor)))
      [[unlikely]] {
    return put_or_refuse(tensor, until, crowded);
  }
  if (queues_ || pending_.count(std::memory_order_acquire) != 0)
    return enqueue({.tensor = tensor, .until = until}, crowded);
  if (!gate_.enter()) {
    SlotAccess::outcome(request) = usable("put");
    return request;
  }
  const bool gone = owner_.gone();
  const bool credit = !gone && has_credit();
  Moving moving{.parts = std::span(&tensor, 1), .until = until};
  Status moved;
  if (credit) moved = move(moving);
  gate_.leave();
  if (!moved.ok()) [[unlikely]]
    end_refused(request, moved);
  if (gone) SlotAccess::outcome(request) = peer_failure("put");
  if (moving.put_in_flight != nullptr) [[unlikely]]
    follow(moving, request);
  if (gone || (credit && !moving.full)) return request;
  return enqueue({.tensor = tensor, .until = until}, crowded);
}

Status PutWriter::check_gather(std::span<const Tensor> parts) const noexcept {
  std::int64_t elements = 0;
  bool same = true;
  for (const Tensor& part : parts) {
    if (lacks_memory(part)) return refuse_tensor(part);
    elements += part.shape().elements();
    same = same && part.dtype() == spec_.dtype;
  }
  if (dynamic())
    return failure(Code::bad_argument, "put",
                   parts.empty() ? "there is no tensor" : "several tensors have no one shape",
                   "put them one by one, or into a slot of fixed shape");
  if (parts.empty() || !same || elements != spec_.shape.elements())
    return wrong_put(formatted("gathered from {} tensors, of {} elements in all{}", parts.size(),
                               elements, same ? "" : " and not all of one dtype"));
  return check_gpu_tensors(parts);
}

bool PutWriter::may_put() noexcept {
  // Those that are pending while a GPU copies have no credit yet. They are counted first, as one
  // may be put meanwhile.
  const std::uint32_t pending = pending_.count(std::memory_order_acquire);
  const bool credit = pending == 0 ? has_credit() : credits_.has_behind(pending, credit_word());
  return credit || gate_.is_shut() || owner_.gone();
}

Request PutWriter::put_front(const Tensor& tensor, bool more) noexcept {
  return enqueue({.tensor = tensor, .until = Until::reusable, .more = more}, Crowded::wait);
}

Request PutWriter::put(std::span<const Tensor> parts, Until until) noexcept {
  Request request;
  if (over()) [[unlikely]] {
    SlotAccess::outcome(request) = refusal("put");
    return request;
  }
  if (const Status failed = has_graphs() ? take_stream_failure() : Status{}; !failed.ok()) {
    end_refused(request, failed);
    return request;
  }
  if (Status status = check_gather(parts); !status.ok()) {
    end_refused(request, status);
    return request;
  }
  try {
    return enqueue({.parts = {parts.begin(), parts.end()}, .until = until}, Crowded::wait);
  } catch (const std::bad_alloc&) {
    end_refused(request, failure(Code::exhausted, "put", "no memory to remember the tensors", ""));
    return request;
  }
}

bool PutWriter::drain() noexcept {
  while (pending_.count(std::memory_order_relaxed) != 0) {
    const std::uint64_t ticket = pending_.front_ticket();
    p2p::PendingPut& front = pending_.at(ticket);
    if (!front.cancelled) {
      if (!gate_.enter()) {
        fail_pending(usable("put"));
        return true;
      }
      const bool gone = owner_.gone();
      const bool is_ready = is_due(front) && !waits_for_torn_chunks();
      const bool credit = !gone && is_ready && front_has_credit(ticket);
      if (credit && dynamic()) lending_->take_back(credits_.released());
      Moving moving{.parts = front.all(),
                    .until = front.until,
                    .ticket = ticket,
                    .after = front.after.get(),
                    .more = front.more};
      const Status status = credit && front.outcome.ok() ? move(moving) : front.outcome;
      gate_.leave();
      if (gone || !status.ok()) {
        fail_pending(gone ? peer_failure("put") : status);
        return true;
      }
      if (moving.full || !is_ready) local_.want_service();  // nothing rings when the queue has room
      if (!credit || moving.full) return false;
      front.sequence = credits_.sent();
      if (moving.lent) {
        moving.put_in_flight->tensor = std::move(front.tensor);
        moving.put_in_flight->parts = std::move(front.parts);
      }
      if (chunks_) {
        chunks_->end();
        if (gpu_sources_) gpu_sources_->drop(ticket);
      }
    }
    front_done_ = 0;
    pending_.pop();
  }
  return true;
}

}  // namespace weft::detail
