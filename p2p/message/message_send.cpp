// Sending: puts messages into the receiver's ring, and queues those that do not fit.
#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/tensor_checks.hpp"
#include "p2p/message/waiting.hpp"

namespace weft::detail {

using p2p::WaitEnd;
using p2p::message::Geometry;
using Stage = MessageOperation::Stage;

namespace {

constexpr int kTriesForRoom = 256;

}  // namespace

Status MessageState::send(int to, std::uint64_t tag, const Tensor& tensor,
                          Deadline deadline) noexcept {
  MessageRequest request = isend_until(to, tag, tensor, deadline);
  if (request.operation_ == nullptr) [[likely]]
    return std::move(request.status_);
  MessageOperation* const operation = request.operation_;
  const auto ended = [operation] { return operation->stage == Stage::ended; };
  if (wait_until(ended, deadline, *operation) == WaitEnd::ready) {
    request.operation_ = nullptr;
    return finish(*operation).status();
  }
  Status status = late(*operation);
  if (operation->stage == Stage::queued) (void)cancel(request);
  // Abandon the operation here: the request's destructor would acquire the messages once more.
  if (request.operation_ != nullptr) abandon(*std::exchange(request.operation_, nullptr));
  return status;
}

MessageRequest MessageState::isend(int to, std::uint64_t tag, const Tensor& tensor,
                                   Deadline until) noexcept {
  return watched(isend_until(to, tag, tensor, until));
}

MessageRequest MessageState::isend_until(int to, std::uint64_t tag, const Tensor& tensor,
                                         Deadline until) noexcept {
  const bool fits =
      tensor.dense() && tensor.bytes() <= Geometry::kLongPayload && !is_out_of_reach(tensor);
  if (to >= 0 && to < local_.size && fits) [[likely]] {
    OutgoingRing* const outgoing = outgoing_at(to);
    if (outgoing != nullptr && outgoing->is_open() && !outgoing->peer().gone() &&
        !stopped_.load(std::memory_order_relaxed) &&
        outgoing->send(tag, tensor) == OutgoingRing::Sent::yes) [[likely]] {
      MessageRequest request;
      request.info_ = {local_.rank, tag, tensor.bytes(), tensor.dtype()};
      return request;
    }
  }
  return start_send(to, tag, tensor, until);
}

MessageRequest MessageState::start_send(int to, std::uint64_t tag, const Tensor& tensor,
                                        Deadline until) noexcept {
  if (tensor.memory().is_gpu()) return start_send_from_gpu(to, tag, tensor, until);
  MessageRequest request;
  request.status_ = check("send", to, tensor);
  if (!request.status_.ok()) return request;
  if (stopped_.load(std::memory_order_acquire)) {
    request.status_ = failure(Code::closed, "send", to, "this rank is leaving the job", "");
    return request;
  }
  request.status_ = gone("send", to);
  if (!request.status_.ok()) return request;
  try {
    OutgoingRing& ring = outgoing(to);
    if (!ring.listed) {
      busy_.push_back(&ring);
      ring.listed = true;
    }
    MessageOperation& operation = take_operation(to, Tag(tag), tensor);
    operation.info = {local_.rank, tag, tensor.bytes(), tensor.dtype()};
    ring.queue(operation);
    follow(request, operation);
    flush();
    // The NIC's queue frees up soon by itself. Retry here: the caller's later waits may not
    // progress messages.
    for (int i = 0; i < kTriesForRoom && ring.held_up(); ++i) {
      local_.waiter.poll();
      flush();
    }
  } catch (const Error& error) {
    request.status_ = error.status();
  } catch (const std::bad_alloc&) {
    request.status_ = failure(Code::exhausted, "send", to, "no memory for the send", "");
  }
  return request;
}

MessageState::OutgoingRing& MessageState::outgoing(int to) {
  if (OutgoingRing* const there = outgoing_at(to)) return *there;
  auto made = std::make_unique<OutgoingRing>(local_, mesh_, mesh_.peer(to));
  OutgoingRing& ring = *made;
  // Publish the ring before asking: the progress thread looks for it when the answer comes.
  outgoing_at_[static_cast<std::size_t>(to)].store(&ring, std::memory_order_release);
  {
    const std::lock_guard lock(report_mutex_);
    outgoing_.push_back(std::move(made));
  }
  ring.ask();
  return ring;
}

void MessageState::flush() noexcept {
  const auto ended = [this](MessageOperation& operation) { end(operation); };
  held_up_ = false;
  for (std::size_t i = 0; i < busy_.size();) {
    OutgoingRing& ring = *busy_[i];
    if (ring.awaits_ring()) local_.progress.help();
    if (ring.peer().gone())
      ring.fail(gone("send", ring.peer().rank), ended);
    else if (stopped_.load(std::memory_order_relaxed))
      ring.fail(failure(Code::closed, "send", ring.peer().rank, "this rank is leaving the job", ""),
                ended);
    else
      ring.flush(ended);
    if (ring.is_busy()) {
      held_up_ = held_up_ || ring.held_up();
      ++i;
    } else {
      ring.listed = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
    }
  }
}

}  // namespace weft::detail
