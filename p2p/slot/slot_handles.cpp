// The public handles: each forwards to its state.
#include <utility>

#include "base/control_call.hpp"
#include "p2p/slot/slot_table.hpp"
#include "weft/published_slot.hpp"
#include "weft/slot.hpp"

namespace weft {
namespace {

/// The application looks at a request that has ended.
void look_at(const Request& request, const Status& outcome) noexcept {
  if (detail::SlotAccess::is_refused(request) && !outcome.ok()) [[unlikely]]
    static_cast<const p2p::RefusedPut&>(outcome.detail()).see();
}

}  // namespace

void Arrival::release_tensor() noexcept {
  tensor_ = nullptr;
  if (owner_ != nullptr) {
    if (!owner_->forked()) owner_->release(sequence_);
  } else if (!reader_->forked()) {
    reader_->release(sequence_);
  }
}

bool Request::test() noexcept {
  if (writer_ == nullptr) {
    look_at(*this, status_);
    return true;
  }
  if (writer_->forked() || writer_->put_ended(ticket_)) return true;
  writer_->poll_arrivals();
  return writer_->put_ended(ticket_);
}

Status Request::wait(Deadline deadline) noexcept {
  if (writer_ == nullptr) {
    look_at(*this, status_);
    return status_;
  }
  if (writer_->forked()) return writer_->fork_refusal("put");
  return writer_->wait_put(ticket_, deadline);
}

Status Request::cancel() noexcept {
  if (writer_ == nullptr) {
    look_at(*this, status_);
    return status_;
  }
  if (writer_->forked()) return writer_->fork_refusal("put");
  bool ended = true;
  const Status status = writer_->cancel_put(ticket_, ended);
  if (!ended) return status;
  status_ = status;
  writer_ = nullptr;
  return status;
}

Slot::Slot() noexcept = default;
Slot::Slot(std::shared_ptr<detail::PutOwner> state) noexcept : state_(std::move(state)) {}
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
void Slot::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

RemoteSlot::RemoteSlot() noexcept = default;
RemoteSlot::RemoteSlot(std::shared_ptr<detail::PutWriter> state) noexcept
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
int RemoteSlot::queue_pairs() const noexcept { return state_->queue_pairs(); }
void RemoteSlot::use_queue_pair(int index) {
  if (state_->forked()) state_->fork_refusal("use_queue_pair").or_throw();
  control_call("use_queue_pair", [&] { state_->use_queue_pair(index); });
}
void RemoteSlot::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

PublishedSlot::PublishedSlot() noexcept = default;
PublishedSlot::PublishedSlot(std::shared_ptr<detail::Publisher> state) noexcept
    : state_(std::move(state)) {}
PublishedSlot::PublishedSlot(PublishedSlot&& other) noexcept = default;
PublishedSlot& PublishedSlot::operator=(PublishedSlot&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
PublishedSlot::~PublishedSlot() {
  if (state_ && !state_->forked()) state_->table().close(std::move(state_));
}

const PublishedSpec& PublishedSlot::spec() const noexcept { return state_->spec(); }
Result<Tensor> PublishedSlot::next(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("next");
  return state_->next(deadline);
}
Status PublishedSlot::publish(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("publish");
  return state_->publish(deadline);
}
int PublishedSlot::readers() const noexcept { return state_->forked() ? 0 : state_->readers(); }
void PublishedSlot::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

PublishedReader::PublishedReader() noexcept = default;
PublishedReader::PublishedReader(std::shared_ptr<detail::VersionReader> state) noexcept
    : state_(std::move(state)) {}
PublishedReader::PublishedReader(PublishedReader&& other) noexcept = default;
PublishedReader& PublishedReader::operator=(PublishedReader&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
PublishedReader::~PublishedReader() {
  if (state_ && !state_->forked()) state_->table().detach(std::move(state_));
}

const PublishedSpec& PublishedReader::spec() const noexcept { return state_->spec(); }
int PublishedReader::owner() const noexcept { return state_->owner().rank; }
Result<Arrival> PublishedReader::view(Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("view");
  return state_->view(deadline);
}
Result<Arrival> PublishedReader::view(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("view");
  return state_->view(runs, deadline);
}
Status PublishedReader::get(const Tensor& into, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("get");
  return state_->get(into, deadline);
}
Status PublishedReader::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  if (state_->forked()) [[unlikely]]
    return state_->fork_refusal("get");
  return state_->get(runs, deadline);
}
bool PublishedReader::ready() const noexcept {
  if (state_->forked()) return false;
  if (state_->ready()) return true;
  state_->poll_arrivals();
  return state_->ready();
}
void PublishedReader::see_again() noexcept {
  if (!state_->forked()) state_->see_again();
}
void PublishedReader::also_needs(std::span<const int> ranks, Needed needed) {
  if (state_->forked()) state_->fork_refusal("also_needs").or_throw();
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

}  // namespace weft
