// The public handles of messages; each forwards to the rank's MessageState.
#include "base/fail.hpp"
#include "base/given_deadline.hpp"
#include "base/handle.hpp"
#include "base/life.hpp"
#include "p2p/message/message_state.hpp"

namespace weft {

bool MessageRequest::orphaned() noexcept {
  if (is_alive(life_, mark_) && (!state_->over() || state_->forked())) [[likely]]
    return false;
  operation_ = nullptr;
  const bool has_left = is_alive(life_, mark_);
  status_ = has_left ? state_->refusal("wait") : orphaned_handle("MessageRequest", "wait", "World");
  return true;
}
void MessageRequest::look() const noexcept {
  if (!status_.ok() && state_ != nullptr && is_alive(life_, mark_) && !state_->over())
    state_->unseen().look_at(status_);
}
void MessageRequest::abandon() noexcept {
  if (orphaned() || state_->over()) return;
  const auto owner = state_->acquire();
  state_->abandon(*std::exchange(operation_, nullptr));
}
bool MessageRequest::test() noexcept {
  if (operation_ == nullptr || orphaned()) {
    look();
    return true;
  }
  if (state_->over()) return false;
  const auto owner = state_->acquire();
  return state_->test(*this);
}
Result<MessageInfo> MessageRequest::wait(Deadline deadline) noexcept {
  if (operation_ == nullptr || orphaned()) {
    look();
    if (!status_.ok()) return status_;
    return info_;
  }
  if (state_->over()) return state_->refusal("wait");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait(*this, deadline));
}
Status MessageRequest::cancel() noexcept {
  if (operation_ == nullptr || orphaned()) {
    look();
    return status_;
  }
  if (state_->over()) return state_->refusal("cancel");
  const auto owner = state_->acquire();
  return state_->cancel(*this);
}

Status Messages::send(int to, std::uint64_t tag, const Tensor& tensor, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "send");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->send(to, tag, tensor, deadline));
}

MessageRequest Messages::isend(int to, std::uint64_t tag, const Tensor& tensor) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return detail::MessageState::refused(unusable(state_, "Messages", "send"));
  const auto owner = state_->acquire();
  return state_->isend(to, tag, tensor);
}

Result<MessageInfo> Messages::recv(int from, Tag tag, const Tensor& into,
                                   Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "recv");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->recv(from, tag, into, deadline));
}

MessageRequest Messages::irecv(int from, Tag tag, const Tensor& into) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return detail::MessageState::refused(unusable(state_, "Messages", "recv"));
  const auto owner = state_->acquire();
  return state_->irecv(from, tag, into);
}

Result<MessageInfo> Messages::sendrecv(int to, std::uint64_t tag, const Tensor& tensor, int from,
                                       Tag from_tag, const Tensor& into,
                                       Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "sendrecv");
  const Deadline until = state_->resolve(deadline);
  MessageRequest sending = [&] {
    const auto owner = state_->acquire();
    return state_->isend(to, tag, tensor, until);
  }();
  const auto named = [&](const Status& failed) {
    return hinted_for(deadline,
                      altered(failed, [](ErrorDetail& detail) { detail.operation = "sendrecv"; }));
  };
  // A send that has failed already is the cause, and to receive could take all the time.
  if (sending.test())
    if (const Result<MessageInfo> ended = sending.wait(until); !ended.ok()) [[unlikely]]
      return named(ended.status());
  Result<MessageInfo> received = recv(from, from_tag, into, until);
  const Result<MessageInfo> sent = sending.wait(until);
  const Status& failed = received.ok() ? sent.status() : received.status();
  if (failed.ok()) [[likely]]
    return received;
  return named(failed);
}

Result<MessageInfo> Messages::probe(int from, Tag tag, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "probe");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->probe(from, tag, deadline));
}

std::optional<MessageInfo> Messages::iprobe(int from, Tag tag) noexcept {
  if (!is_usable(state_)) return std::nullopt;
  const auto owner = state_->acquire();
  return state_->iprobe(from, tag);
}

Status Messages::wait_all(std::span<MessageRequest> requests, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "wait_all");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait_all(requests, deadline));
}

Result<std::size_t> Messages::wait_any(std::span<MessageRequest> requests,
                                       Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Messages", "wait_any");
  const auto owner = state_->acquire();
  return hinted_for(deadline, state_->wait_any(requests, deadline));
}

}  // namespace weft
