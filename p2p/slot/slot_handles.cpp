// The public handles: each forwards to its state.
#include <utility>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "base/life.hpp"
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

/// A handle lets go of the end that it owns.
void release_end(std::shared_ptr<detail::PutOwner>& end) noexcept {
  if (!end) return;
  end->end_streams();
  if (!end->over()) end->table().close(*end);
  if (!end->held().keep(end)) end.reset();
}
void release_end(std::shared_ptr<detail::Publisher>& end) noexcept {
  if (!end) return;
  if (!end->over()) {
    end->end_streams();
    end->table().close(*end);
  }
  end.reset();
}
void release_end(std::shared_ptr<detail::PutWriter>& end) noexcept {
  if (!end) return;
  end->life().end();
  if (!end->over()) end->table().detach(*end);
  end.reset();
}
void release_end(std::shared_ptr<detail::VersionReader>& end) noexcept {
  if (!end) return;
  const bool takes_part = !end->over();
  // Memory of the caller's is lent until here.
  if (takes_part) end->drop_pending();
  // An end whose versions are viewed detaches when the last of them is released.
  if (end->held().keep(end)) return;
  if (takes_part) end->table().detach(*end);
  end.reset();
}

template <typename End>
void replace(std::shared_ptr<End>& end, std::shared_ptr<End>& by) noexcept {
  if (&end == &by) return;
  std::shared_ptr<End> former = std::move(end);
  end = std::move(by);
  release_end(former);
}

/// A request for a put that was refused.
Request refused(Status why) noexcept {
  Request request;
  detail::SlotAccess::outcome(request) = std::move(why);
  return request;
}

}  // namespace

const Tensor& Arrival::no_tensor() noexcept { return nothing<Tensor>(); }

void Arrival::release_tensor() noexcept {
  // A slot that is closed gives no credits.
  if (owner_ != nullptr && !owner_->over() && !owner_->held().is_kept())
    owner_->release(sequence_, outcome_);
  forget_tensor();
}

Status Arrival::release(Stream stream) noexcept {
  if (tensor_ == nullptr) return {};
  if (!stream.none()) {
    if (owner_ == nullptr)
      return refuse(Code::bad_argument, [] {
        return ErrorDetail{.operation = "release",
                           .message = "no stream releases a version that was viewed",
                           .hint = "release it on the thread"};
      });
    if (!owner_->over())
      if (Status status = owner_->release_behind(sequence_, outcome_, stream); !status.ok())
        return status;
    forget_tensor();
    return {};
  }
  release_tensor();
  return {};
}

void Arrival::forget_tensor() noexcept {
  tensor_ = nullptr;
  outcome_ = nullptr;
  if (owner_ != nullptr) {
    if (owner_->held().last_has_gone()) [[unlikely]]
      owner_->held().take();
  } else {
    if (!reader_->over()) reader_->release(sequence_);
    if (reader_->held().last_has_gone()) [[unlikely]] {
      auto last = reader_->held().take();
      release_end(last);
    }
  }
}

detail::PutWriter* Request::living() noexcept {
  if (writer_ == nullptr || is_alive(life_, mark_)) [[likely]]
    return writer_;
  writer_ = nullptr;
  status_ = orphaned_handle("Request", "put", "RemoteSlot");
  return nullptr;
}

bool Request::test() noexcept {
  detail::PutWriter* const writer = living();
  if (writer == nullptr) {
    look_at(*this, status_);
    return true;
  }
  if (writer->over() || writer->put_ended(ticket_)) return true;
  writer->poll_arrivals();
  return writer->put_ended(ticket_);
}

Status Request::wait(Deadline deadline) noexcept {
  detail::PutWriter* const writer = living();
  if (writer == nullptr) {
    look_at(*this, status_);
    return status_;
  }
  if (writer->over()) return writer->refusal("put");
  return writer->wait_put(ticket_, deadline);
}

Status Request::wait_on(Stream stream, Deadline deadline) noexcept {
  detail::PutWriter* const writer = living();
  if (writer == nullptr || writer->over() || stream.none()) return wait(deadline);
  return writer->wait_put_on(ticket_, stream, deadline);
}

Status Request::cancel() noexcept {
  detail::PutWriter* const writer = living();
  if (writer == nullptr) {
    look_at(*this, status_);
    return status_;
  }
  if (writer->over()) return writer->refusal("put");
  bool ended = true;
  const Status status = writer->cancel_put(ticket_, ended);
  if (!ended) return status;
  status_ = status;
  writer_ = nullptr;
  return status;
}

Slot::Slot() noexcept = default;
Slot::Slot(std::shared_ptr<detail::PutOwner> state) noexcept : state_(std::move(state)) {}
Slot::Slot(Slot&& other) noexcept = default;
Slot& Slot::operator=(Slot&& other) noexcept {
  replace(state_, other.state_);
  return *this;
}
Slot::~Slot() { release_end(state_); }

const SlotSpec& Slot::spec() const noexcept {
  return state_ ? state_->spec() : nothing<SlotSpec>();
}
Result<Arrival> Slot::wait(Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Slot", "wait");
  return state_->wait(deadline);
}
Result<Arrival> Slot::wait_on(Stream stream, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Slot", "wait");
  return state_->wait_on(stream, deadline);
}
bool Slot::ready() const noexcept {
  if (!is_usable(state_)) return false;
  if (state_->ready()) return true;
  state_->poll_arrivals();
  return state_->ready();
}
void Slot::allocate_with(AllocateTensor allocate) {
  require_usable(state_, "Slot", "allocate_with");
  control_call("allocate_with", [&] { state_->allocate_with(std::move(allocate)); });
}
void Slot::also_needs(std::span<const int> ranks, Needed needed) {
  require_usable(state_, "Slot", "also_needs");
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

RemoteSlot::RemoteSlot() noexcept = default;
RemoteSlot::RemoteSlot(std::shared_ptr<detail::PutWriter> state) noexcept
    : state_(std::move(state)) {}
RemoteSlot::RemoteSlot(RemoteSlot&& other) noexcept = default;
RemoteSlot& RemoteSlot::operator=(RemoteSlot&& other) noexcept {
  replace(state_, other.state_);
  return *this;
}
RemoteSlot::~RemoteSlot() { release_end(state_); }

const SlotSpec& RemoteSlot::spec() const noexcept {
  return state_ ? state_->spec() : nothing<SlotSpec>();
}
int RemoteSlot::owner() const noexcept { return state_ ? state_->owner().rank : -1; }
Request RemoteSlot::put(const Tensor& tensor, Until until) noexcept {
  if (!state_) [[unlikely]]
    return refused(empty_handle("RemoteSlot", "put"));
  return state_->put(tensor, until);
}
Request RemoteSlot::put(std::span<const Tensor> parts, Until until) noexcept {
  if (!state_) [[unlikely]]
    return refused(empty_handle("RemoteSlot", "put"));
  return state_->put(parts, until);
}
Request RemoteSlot::put(const Tensor& tensor, Stream stream, Until until) noexcept {
  if (!state_) [[unlikely]]
    return refused(empty_handle("RemoteSlot", "put"));
  return state_->put_behind(tensor, stream, until);
}
Request RemoteSlot::put(std::span<const Tensor> parts, Stream stream, Until until) noexcept {
  if (!state_) [[unlikely]]
    return refused(empty_handle("RemoteSlot", "put"));
  return state_->put_behind(parts, stream, until);
}
int RemoteSlot::queue_pairs() const noexcept {
  return is_usable(state_) ? state_->queue_pairs() : 0;
}
void RemoteSlot::use_queue_pair(int index) {
  require_usable(state_, "RemoteSlot", "use_queue_pair");
  control_call("use_queue_pair", [&] { state_->use_queue_pair(index); });
}
void RemoteSlot::also_needs(std::span<const int> ranks, Needed needed) {
  require_usable(state_, "RemoteSlot", "also_needs");
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

PublishedSlot::PublishedSlot() noexcept = default;
PublishedSlot::PublishedSlot(std::shared_ptr<detail::Publisher> state) noexcept
    : state_(std::move(state)) {}
PublishedSlot::PublishedSlot(PublishedSlot&& other) noexcept = default;
PublishedSlot& PublishedSlot::operator=(PublishedSlot&& other) noexcept {
  replace(state_, other.state_);
  return *this;
}
PublishedSlot::~PublishedSlot() { release_end(state_); }

const PublishedSpec& PublishedSlot::spec() const noexcept {
  return state_ ? state_->spec() : nothing<PublishedSpec>();
}
Result<Tensor> PublishedSlot::next(Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedSlot", "next");
  return state_->next(deadline);
}
Status PublishedSlot::publish(Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedSlot", "publish");
  return state_->publish(deadline);
}
Status PublishedSlot::publish(Stream stream, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedSlot", "publish");
  return state_->publish(stream, deadline);
}
int PublishedSlot::readers() const noexcept { return is_usable(state_) ? state_->readers() : 0; }
void PublishedSlot::also_needs(std::span<const int> ranks, Needed needed) {
  require_usable(state_, "PublishedSlot", "also_needs");
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

PublishedReader::PublishedReader() noexcept = default;
PublishedReader::PublishedReader(std::shared_ptr<detail::VersionReader> state) noexcept
    : state_(std::move(state)) {}
PublishedReader::PublishedReader(PublishedReader&& other) noexcept = default;
PublishedReader& PublishedReader::operator=(PublishedReader&& other) noexcept {
  replace(state_, other.state_);
  return *this;
}
PublishedReader::~PublishedReader() { release_end(state_); }

const PublishedSpec& PublishedReader::spec() const noexcept {
  return state_ ? state_->spec() : nothing<PublishedSpec>();
}
int PublishedReader::owner() const noexcept { return state_ ? state_->owner().rank : -1; }
Result<Arrival> PublishedReader::view(Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedReader", "view");
  return state_->view(deadline);
}
Result<Arrival> PublishedReader::view(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedReader", "view");
  return state_->view(runs, deadline);
}
Status PublishedReader::get(const Tensor& into, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedReader", "get");
  return state_->get(into, deadline);
}
Status PublishedReader::get(const Tensor& into, Stream stream, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedReader", "get");
  return state_->get_behind(into, stream, deadline);
}
const std::uint32_t* PublishedReader::outcome() const noexcept {
  return is_usable(state_) ? state_->stream_outcome() : nullptr;
}
Status PublishedReader::get(std::span<const SlotRun> runs, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "PublishedReader", "get");
  return state_->get(runs, deadline);
}
bool PublishedReader::ready() const noexcept {
  if (!is_usable(state_)) return false;
  if (state_->ready()) return true;
  state_->poll_arrivals();
  return state_->ready();
}
void PublishedReader::see_again() noexcept {
  if (is_usable(state_)) state_->see_again();
}
void PublishedReader::also_needs(std::span<const int> ranks, Needed needed) {
  require_usable(state_, "PublishedReader", "also_needs");
  control_call("also_needs", [&] { state_->also_needs(ranks, needed); });
}

}  // namespace weft
