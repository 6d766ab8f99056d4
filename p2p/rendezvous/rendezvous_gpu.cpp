// Tensors on a GPU: they are offered from host memory, and arrive in it first.
#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/rendezvous/rendezvous_state.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p::rendezvous {

bool ReceiverEnd::bring_to_gpu(Item& item) noexcept {
  ToGpu& to = item.to_gpu;
  if (to.outcome || !goes_to_gpu(item)) return true;
  LocalRank& local = session_.local;
  try {
    if (!to.copy) {
      to.tensor = Tensor(make_storage(local.gpus->arena(session_.spec.memory), item.result.bytes()),
                         0, item.metadata.dtype, item.metadata.shape);
      to.copy = local.gpus->copy_pinned("recv", local.data, item.result, to.tensor);
    }
    to.outcome = to.copy->poll();
  } catch (...) {
    to.outcome = caught_status();
  }
  return to.outcome.has_value();
}

Result<Tensor> ReceiverEnd::take_from_gpu(const KeyStep& at, Item& item) {
  const bool has_ended = bring_to_gpu(item);
  if (has_ended && item.to_gpu.outcome->ok()) {
    session_.received_to_gpu.staged_bytes.add(item.result.bytes());
    session_.received_to_gpu.device_copies.add(1);
    return item.to_gpu.tensor;
  }
  item.waited = false;
  ++left_behind_;
  if (!has_ended)
    return session_.failure(
        Code::timeout, "recv", at,
        formatted("it has arrived, and {} has not copied it", session_.spec.memory.text()),
        "receive it again: the copy goes on");
  const Status why = *item.to_gpu.outcome;
  item.to_gpu = {};
  return session_.failure(why.code(), "recv", at, why.detail().message, why.detail().hint);
}

}  // namespace weft::p2p::rendezvous

namespace weft::detail {

using p2p::rendezvous::Content;
using p2p::rendezvous::Ticket;
using SessionLock = p2p::rendezvous::PeerSession::SessionLock;

Status RendezvousState::send_from_gpu(int to, const KeyStep& at, const Tensor& tensor,
                                      Deadline until) noexcept {
  PeerSession& session = with(to);
  if (local_.gpus == nullptr)
    return session.failure(Code::bad_argument, "send", at,
                           "the tensor lies on a GPU, and this rank has none",
                           give_host_memory(tensor));
  {
    const SessionLock lock(session);
    if (Status status = session.usable("send", at); !status.ok()) return status;
  }
  Content content;
  content.metadata = {.dtype = tensor.dtype(), .shape = tensor.shape()};
  Status copied;
  try {
    local_.gpus->check_parts("send", {&tensor, 1});
    content.tensor =
        Tensor(p2p::make_storage(local_.data, tensor.bytes()), 0, tensor.dtype(), tensor.shape());
    content.owned = true;
    copied = p2p::copy_and_wait(local_, "send", local_.data, tensor, content.tensor, until);
  } catch (...) {
    copied = caught_status();
  }
  if (!copied.ok())
    return session.failure(copied.code(), "send", at, copied.detail().message,
                           copied.detail().hint);
  {
    const SessionLock lock(session);
    session.sender().count_staged(tensor.bytes());
  }
  return offer(to, at, content, until);
}

bool RendezvousState::bring_to_gpu(PeerSession& session, std::span<Ticket> tickets) noexcept {
  if (std::ranges::none_of(tickets, &Ticket::may_need_gpu)) return true;
  const SessionLock lock(session);
  bool all = true;
  for (Ticket& ticket : tickets)
    if (ticket.may_need_gpu() && !session.receiver().bring_to_gpu(*ticket.item)) all = false;
  return all;
}

void RendezvousState::await_gpu(PeerSession& session, std::span<const KeyStep> wanted,
                                std::span<Ticket> tickets, Deadline until) noexcept {
  if (bring_to_gpu(session, tickets)) return;
  hand_over();
  stats::WaitDetailsRoom details;
  // A tensor that has arrived is there, even if its sender is gone.
  (void)p2p::wait_for_device(
      local_,
      [&] {
        return bring_to_gpu(session, tickets) ? std::optional<Status>(Status{}) : std::nullopt;
      },
      until,
      [&] { return about(details.make(), "copy to a GPU", wanted.front(), session.peer().rank); });
}

}  // namespace weft::detail
