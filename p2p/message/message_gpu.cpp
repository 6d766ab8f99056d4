// Messages of tensors on a GPU: they go by way of host memory.
#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/message/message_state.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {
namespace {

/// The first `bytes` of a dense tensor.
Tensor first_bytes(const Tensor& tensor, std::size_t bytes) {
  const Shape shape{static_cast<std::int64_t>(bytes)};
  if (!tensor.storage()) return Tensor::wrap(tensor.data(), DType::u8, shape, tensor.memory());
  const auto offset = static_cast<std::size_t>(tensor.data() - tensor.storage()->data());
  return {tensor.storage(), offset, DType::u8, shape};
}

/// Host memory that stands in for `tensor`.
Tensor host_tensor(const p2p::LocalRank& local, const Tensor& tensor) {
  return {p2p::make_storage(local.data, tensor.bytes()), 0, tensor.dtype(), tensor.shape()};
}

void count_copy(p2p::GpuCounters& counters, std::size_t bytes) noexcept {
  counters.staged_bytes.add(bytes);
  counters.device_copies.add(1);
}

}  // namespace

bool MessageState::is_misplaced(const Tensor& tensor) const noexcept {
  return local_.gpus != nullptr && local_.gpus->is_misplaced(tensor);
}

Status MessageState::check_gpu_tensor(const char* operation, int rank,
                                      const Tensor& tensor) const noexcept {
  if (Status status = check(operation, rank); rank != kAnySource && !status.ok()) return status;
  const auto refuse_it = [&](const std::string& why) {
    return failure(Code::bad_argument, operation, rank, why, give_host_memory(tensor));
  };
  try {
    if (lacks_memory(tensor)) return refuse_it(no_host_memory("the tensor", tensor));
    if (local_.gpus == nullptr)
      return refuse_it("the tensor lies on a GPU, and this rank has none");
    local_.gpus->check_parts(operation, std::span(&tensor, 1));
    return {};
  } catch (...) {
    return caught_status();
  }
}

MessageRequest MessageState::start_send_from_gpu(int to, std::uint64_t tag, const Tensor& tensor,
                                                 Deadline until) noexcept {
  MessageRequest request;
  request.status_ = check_gpu_tensor("send", to, tensor);
  if (!request.status_.ok()) return request;
  try {
    const Tensor host = host_tensor(local_, tensor);
    if (tensor.bytes() != 0)
      request.status_ = p2p::copy_and_wait(
          local_, "send", local_.data, first_bytes(tensor, tensor.bytes()),
          first_bytes(host, tensor.bytes()), until.resolve(local_.waiter.default_timeout()));
    if (!request.status_.ok()) return request;
    request = isend_until(to, tag, host, until);
    if (OutgoingRing* const ring = outgoing_at(to); ring != nullptr && tensor.bytes() != 0)
      count_copy(ring->gpu_counters(), tensor.bytes());
  } catch (...) {
    request.status_ = caught_status();
  }
  return request;
}

Result<MessageInfo> MessageState::recv_to_gpu(int from, const Tag& tag, const Tensor& into,
                                              Deadline until) noexcept {
  if (Status status = check_gpu_tensor("recv", from, into); !status.ok()) return status;
  try {
    const Tensor host = host_tensor(local_, into);
    Result<MessageInfo> received = recv(from, tag, host, until);
    if (!received.ok() || received->bytes == 0) return received;
    Status copied =
        p2p::copy_and_wait(local_, "recv", local_.data, first_bytes(host, received->bytes),
                           first_bytes(into, received->bytes), until);
    if (!copied.ok()) return copied;
    if (IncomingRing* const ring = incoming_at(received->source); ring != nullptr)
      count_copy(ring->gpu_counters(), received->bytes);
    return received;
  } catch (...) {
    return caught_status();
  }
}

MessageRequest MessageState::irecv_to_gpu(int from, const Tag& tag, const Tensor& into) noexcept {
  MessageRequest request;
  request.status_ = check_gpu_tensor("recv", from, into);
  if (!request.status_.ok()) return request;
  try {
    const Tensor host = host_tensor(local_, into);
    post(request, find_kept(from, tag), from, tag, host, into);
  } catch (...) {
    request.status_ = caught_status();
  }
  return request;
}

bool MessageState::begin_copy(MessageOperation& receive) noexcept {
  const std::size_t bytes = receive.info.bytes;
  if (receive.status.ok() && bytes != 0) try {
      receive.copy =
          local_.gpus->copy_pinned("recv", local_.data, first_bytes(receive.tensor, bytes),
                                   first_bytes(receive.on_gpu, bytes));
      receive.stage = MessageOperation::Stage::copying;
      copies_.add(receive);
      return true;
    } catch (...) {
      receive.status = caught_status();
    }
  receive.on_gpu = {};
  return false;
}

void MessageState::follow_copies() noexcept {
  for (MessageOperation* receive = copies_.first(); receive != nullptr;) {
    MessageOperation& operation = *receive;
    receive = receive->next;
    const std::optional<Status> outcome = operation.copy->poll();
    if (!outcome) continue;
    copies_.remove(operation);
    operation.copy.reset();
    operation.on_gpu = {};
    operation.status = *outcome;
    if (IncomingRing* const ring = incoming_at(operation.info.source); outcome->ok())
      count_copy(ring->gpu_counters(), operation.info.bytes);
    end(operation);
  }
}

}  // namespace weft::detail
