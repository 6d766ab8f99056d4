// The public handles of messages; each forwards to the rank's MessageState.
#include "base/fail.hpp"
#include "base/given_deadline.hpp"
#include "p2p/message/message_state.hpp"

namespace weft {

void MessageRequest::abandon() noexcept {
  if (state_->forked()) return;
  const auto owner = state_->acquire();
  state_->abandon(*std::exchange(operation_, nullptr));
}
bool MessageRequest::test() noexcept {
  if (operation_ == nullptr) return true;
  if (state_->forked()) return false;
  const auto owner = state_->acquire();
  return state_->test(*this);
}
Result<MessageInfo> MessageRequest::wait(Deadline deadline) noexcept {
  if (operation_ == nullptr) {
    if (!status_.ok()) return status_;
    return info_;
  }
  if (state_->forked()) return state_->fork_refusal("wait");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait(*this, deadline));
}
Status MessageRequest::cancel() noexcept {
  if (operation_ == nullptr) return status_;
  if (state_->forked()) return state_->fork_refusal("cancel");
  const auto owner = state_->acquire();
  return state_->cancel(*this);
}

Status Messages::send(int to, std::uint64_t tag, const Tensor& tensor, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("send");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->send(to, tag, tensor, deadline));
}

MessageRequest Messages::isend(int to, std::uint64_t tag, const Tensor& tensor) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->refused(state_->fork_refusal("send"));
  const auto owner = state_->acquire();
  return state_->isend(to, tag, tensor);
}

Result<MessageInfo> Messages::recv(int from, Tag tag, const Tensor& into,
                                   Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("recv");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->recv(from, tag, into, deadline));
}

MessageRequest Messages::irecv(int from, Tag tag, const Tensor& into) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->refused(state_->fork_refusal("recv"));
  const auto owner = state_->acquire();
  return state_->irecv(from, tag, into);
}

Result<MessageInfo> Messages::sendrecv(int to, std::uint64_t tag, const Tensor& tensor, int from,
                                       Tag from_tag, const Tensor& into,
                                       Deadline deadline) noexcept {
  const Deadline until = state_->resolve(deadline);
  MessageRequest sending = isend(to, tag, tensor);
  Result<MessageInfo> received = recv(from, from_tag, into, until);
  const Result<MessageInfo> sent = sending.wait(until);
  const Status& failed = received.ok() ? sent.status() : received.status();
  if (failed.ok()) [[likely]]
    return received;
  return hinted_for(deadline,
                    altered(failed, [](ErrorDetail& detail) { detail.operation = "sendrecv"; }));
}

Result<MessageInfo> Messages::probe(int from, Tag tag, Deadline deadline) noexcept {
  if (state_->forked()) return state_->fork_refusal("probe");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->probe(from, tag, deadline));
}

std::optional<MessageInfo> Messages::iprobe(int from, Tag tag) noexcept {
  if (state_->forked()) return std::nullopt;
  const auto owner = state_->acquire();
  return state_->iprobe(from, tag);
}

Status Messages::wait_all(std::span<MessageRequest> requests, Deadline deadline) noexcept {
  if (state_->forked()) return state_->fork_refusal("wait_all");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait_all(requests, deadline));
}

Result<std::size_t> Messages::wait_any(std::span<MessageRequest> requests,
                                       Deadline deadline) noexcept {
  if (state_->forked()) return state_->fork_refusal("wait_any");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait_any(requests, deadline));
}

}  // namespace weft
