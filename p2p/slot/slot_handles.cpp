// The public handles: each forwards to its state.
#include <utility>

#include "base/control_call.hpp"
#include "p2p/slot/remote_slot_state.hpp"
#include "p2p/slot/slot_state.hpp"
#include "p2p/slot/slot_table.hpp"
#include "weft/slot.hpp"

namespace weft {

void Arrival::release_tensor() noexcept {
  tensor_ = nullptr;
  if (slot_ != nullptr) {
    if (!slot_->forked()) slot_->release(sequence_);
  } else if (!remote_->forked()) {
    remote_->release(sequence_);
  }
}

bool Request::test() noexcept {
  if (remote_ == nullptr || remote_->forked() || remote_->put_ended(ticket_)) return true;
  remote_->poll_arrivals();
  return remote_->put_ended(ticket_);
}

Status Request::wait(Deadline deadline) noexcept {
  if (remote_ == nullptr) return status_;
  if (remote_->forked()) return remote_->fork_refusal("put");
  return remote_->wait_put(ticket_, deadline);
}

Status Request::cancel() noexcept {
  if (remote_ == nullptr) return status_;
  if (remote_->forked()) return remote_->fork_refusal("put");
  bool ended = true;
  const Status status = remote_->cancel_put(ticket_, ended);
  if (!ended) return status;
  status_ = status;
  remote_ = nullptr;
  return status;
}

Slot::Slot() noexcept = default;
Slot::Slot(std::shared_ptr<detail::SlotState> state) noexcept : state_(std::move(state)) {}
Slot::Slot(Slot&& other) noexcept = default;
Slot& Slot::operator=(Slot&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Slot::~Slot() {
  if (state_ && !state_->forked()) state_->table().close(std::move(state_));
}

const SlotSpec& Slot::spec() const noexcept { return state_->spec(); }
Result<Arrival> Slot::wait(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("wait");
  return state_->wait(deadline);
}
bool Slot::ready() const noexcept {
  if (state_->forked()) return false;
  if (state_->ready()) return true;
  state_->poll_arrivals();
  return state_->ready();
}
void Slot::allocate_with(AllocateTensor allocate) {
  if (state_->forked()) state_->fork_refusal("allocate_with").or_throw();
  control_call("allocate_with", [&] { state_->allocate_with(std::move(allocate)); });
}
Result<Tensor> Slot::next(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("next");
  return state_->next(deadline);
}
Status Slot::publish() noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("publish");
  return state_->publish();
}
int Slot::readers() const noexcept { return state_->forked() ? 0 : state_->readers(); }
void Slot::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

RemoteSlot::RemoteSlot() noexcept = default;
RemoteSlot::RemoteSlot(std::shared_ptr<detail::RemoteSlotState> state) noexcept
    : state_(std::move(state)) {}
RemoteSlot::RemoteSlot(RemoteSlot&& other) noexcept = default;
RemoteSlot& RemoteSlot::operator=(RemoteSlot&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
RemoteSlot::~RemoteSlot() {
  if (state_ && !state_->forked()) state_->table().detach(std::move(state_));
}

const SlotSpec& RemoteSlot::spec() const noexcept { return state_->spec(); }
int RemoteSlot::owner() const noexcept { return state_->owner().rank; }
Request RemoteSlot::put(const Tensor& tensor, Until until) noexcept {
  return state_->put(tensor, until);
}
Request RemoteSlot::put(std::span<const Tensor> parts, Until until) noexcept {
  return state_->put(parts, until);
}
Result<Arrival> RemoteSlot::view(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("view");
  return state_->view(deadline);
}
Status RemoteSlot::get(const Tensor& into, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("get");
  return state_->get(into, deadline);
}
Status RemoteSlot::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("get");
  return state_->get(runs, deadline);
}
bool RemoteSlot::ready() const noexcept {
  if (state_->forked()) return false;
  if (state_->ready()) return true;
  state_->poll_arrivals();
  return state_->ready();
}
void RemoteSlot::see_again() noexcept {
  if (!state_->forked()) state_->see_again();
}
int RemoteSlot::queue_pairs() const noexcept { return state_->queue_pairs(); }

void RemoteSlot::use_queue_pair(int index) {
  if (state_->forked()) state_->fork_refusal("use_queue_pair").or_throw();
  control_call("use_queue_pair", [&] { state_->use_queue_pair(index); });
}

void RemoteSlot::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

}  // namespace weft
