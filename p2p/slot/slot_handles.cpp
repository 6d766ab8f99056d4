// The public handles: each forwards to its state.
#include <utility>

#include "p2p/slot/remote_slot_state.hpp"
#include "p2p/slot/slot_state.hpp"
#include "p2p/slot/slot_table.hpp"
#include "weft/slot.hpp"

namespace weft {

void Arrival::let_go() noexcept {
  tensor_ = nullptr;
  if (slot_ != nullptr)
    slot_->let_go(sequence_);
  else
    remote_->let_go(sequence_);
}

bool Request::test() noexcept { return remote_ == nullptr || remote_->put_ended(ticket_); }

Status Request::wait(Deadline deadline) noexcept {
  return remote_ == nullptr ? status_ : remote_->wait_put(ticket_, deadline);
}

Status Request::cancel() noexcept {
  if (remote_ == nullptr) return status_;
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
  if (state_) state_->table().close(std::move(state_));
}

const SlotSpec& Slot::spec() const noexcept { return state_->spec(); }
Result<Arrival> Slot::wait(Deadline deadline) noexcept { return state_->wait(deadline); }
bool Slot::ready() const noexcept { return state_->ready(); }
void Slot::allocate_with(AllocateTensor allocate) { state_->allocate_with(std::move(allocate)); }
Result<Tensor> Slot::next(Deadline deadline) noexcept { return state_->next(deadline); }
Status Slot::publish() noexcept { return state_->publish(); }
int Slot::readers() const noexcept { return state_->readers(); }
void Slot::also_needs(std::span<const int> ranks) { state_->also_needs(ranks); }

RemoteSlot::RemoteSlot() noexcept = default;
RemoteSlot::RemoteSlot(std::shared_ptr<detail::RemoteSlotState> state) noexcept
    : state_(std::move(state)) {}
RemoteSlot::RemoteSlot(RemoteSlot&& other) noexcept = default;
RemoteSlot& RemoteSlot::operator=(RemoteSlot&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
RemoteSlot::~RemoteSlot() {
  if (state_) state_->table().detach(std::move(state_));
}

const SlotSpec& RemoteSlot::spec() const noexcept { return state_->spec(); }
int RemoteSlot::owner() const noexcept { return state_->owner().rank; }
Request RemoteSlot::put(const Tensor& tensor, Until) noexcept {
  // Within a host a tensor that was copied is both: reusable and delivered.
  return state_->put(tensor);
}
Request RemoteSlot::put(std::span<const Tensor> parts, Until) noexcept {
  return state_->put(parts);
}
Result<Arrival> RemoteSlot::view(Deadline deadline) noexcept { return state_->view(deadline); }
Status RemoteSlot::get(const Tensor& into, Deadline deadline) noexcept {
  return state_->get(into, deadline);
}
Status RemoteSlot::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  return state_->get(runs, deadline);
}
bool RemoteSlot::ready() const noexcept { return state_->ready(); }
void RemoteSlot::also_needs(std::span<const int> ranks) { state_->also_needs(ranks); }

}  // namespace weft
