// The public handle of a rendezvous; forwards to its RendezvousState.
#include <fmt/format.h>

#include <utility>

#include "base/control_call.hpp"
#include "base/given_deadline.hpp"
#include "base/handle.hpp"
#include "p2p/rendezvous/rendezvous_state.hpp"
#include "p2p/rendezvous/rendezvous_table.hpp"
#include "weft/rendezvous.hpp"

namespace weft {

std::string_view name(RendezvousMessage message) noexcept {
  switch (message) {
    case RendezvousMessage::hello:
      return "hello";
    case RendezvousMessage::tensor_request:
      return "tensor_request";
    case RendezvousMessage::meta_data_response:
      return "meta_data_response";
    case RendezvousMessage::tensor_re_request:
      return "tensor_re_request";
    case RendezvousMessage::tensor:
      return "tensor";
    case RendezvousMessage::error_status:
      return "error_status";
    case RendezvousMessage::cancel:
      return "cancel";
  }
  return "unknown";
}

Codec::~Codec() = default;

Status Received::decode(Codec& value) const noexcept {
  const auto failure = [](Code code, std::string message, std::string hint) {
    return Status(ErrorDetail{.code = code,
                              .operation = "decode",
                              .message = std::move(message),
                              .hint = std::move(hint)});
  };
  try {
    if (is_dead || codec != value.id())
      return failure(Code::mismatch,
                     is_dead ? "a dead tensor has no content"
                             : fmt::format("it was encoded by codec {} and is decoded by codec {} "
                                           "(0: a plain tensor)",
                                           codec, value.id()),
                     "decode with the codec that the sender encoded with");
    value.decode({tensor.data(), tensor.bytes()});
    return {};
  } catch (const std::exception& error) {
    return failure(Code::bad_argument, fmt::format("the codec threw: {}", error.what()), "");
  }
}

Rendezvous::Rendezvous() noexcept = default;
Rendezvous::Rendezvous(std::shared_ptr<detail::RendezvousState> state) noexcept
    : state_(std::move(state)) {}
Rendezvous::Rendezvous(Rendezvous&&) noexcept = default;
Rendezvous& Rendezvous::operator=(Rendezvous&& other) noexcept {
  if (this == &other) return *this;
  const Rendezvous former(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
Rendezvous::~Rendezvous() {
  if (is_usable(state_)) state_->table().close(*state_);
}

Status Rendezvous::send(int to, std::string_view key, std::uint64_t step, const Tensor& tensor,
                        Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "send");
  return state_->send(to, {key, step}, tensor, deadline);
}
Status Rendezvous::send_dead(int to, std::string_view key, std::uint64_t step,
                             Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "send_dead");
  return state_->send_dead(to, {key, step}, deadline);
}
Status Rendezvous::send_error(int to, std::string_view key, std::uint64_t step, Code code,
                              std::string_view text, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "send_error");
  return state_->send_error(to, {key, step}, code, text, deadline);
}
Status Rendezvous::send_encoded(int to, std::string_view key, std::uint64_t step,
                                const Codec& value, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "send_encoded");
  return state_->send_encoded(to, {key, step}, value, deadline);
}
bool Rendezvous::lent(int to, std::string_view key, std::uint64_t step) const noexcept {
  return is_usable(state_) && state_->lent(to, {key, step});
}
Status Rendezvous::serve(Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "serve");
  return state_->serve(deadline);
}
bool Rendezvous::ready(int from, std::string_view key, std::uint64_t step) noexcept {
  return is_usable(state_) && state_->ready(from, {key, step});
}
Result<Received> Rendezvous::recv(int from, std::string_view key, std::uint64_t step,
                                  Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "recv");
  return hinted_for(deadline, state_->recv(from, {key, step}, deadline));
}
std::vector<Result<Received>> Rendezvous::recv(int from, std::span<const KeyStep> wanted,
                                               Deadline deadline) {
  return control_call("recv", [&]() -> std::vector<Result<Received>> {
    if (!is_usable(state_)) return {wanted.size(), unusable(state_, "Rendezvous", "recv")};
    std::vector<Result<Received>> all = state_->recv(from, wanted, deadline);
    for (Result<Received>& one : all)
      if (!one.ok()) one = hinted_for(deadline, one.status());
    return all;
  });
}
Status Rendezvous::cancel(int from, std::string_view key, std::uint64_t step) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Rendezvous", "cancel");
  return state_->cancel(from, {key, step});
}

}  // namespace weft
