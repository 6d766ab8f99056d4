// Puts that go on after their call: what is lent to them, until when, and what came of them.
#include <fmt/format.h>

#include <new>

#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {
namespace {

/// A NIC gives up a put to a peer that does not answer well before.
constexpr std::chrono::seconds kLanding{20};

}  // namespace

RemoteSlotState::Moving RemoteSlotState::start_put(Moving moving,
                                                   const p2p::PutWork& work) noexcept {
  const bool packed = work.source != nullptr && work.source == pack_.data();
  // A request of a dynamic slot ends when the owner has read.
  const bool awaited =
      !dynamic() && (moving.until == Until::delivered || (!work.source_is_free && !packed));
  if (!awaited && work.source_is_free) return moving;
  if (moving.ticket == 0) {
    const std::lock_guard lock(pending_mutex_);
    moving.ticket = next_ticket_++;
    done_ticket_.store(moving.ticket, std::memory_order_release);
  }
  moving.put_in_flight = &in_flight_.begin(moving.ticket, work.posted, awaited);
  moving.lent = !work.source_is_free && !packed && !dynamic();
  if (packed && !work.source_is_free) moving.put_in_flight->packed = std::exchange(pack_, {});
  return moving;
}

void RemoteSlotState::follow(Moving moving, Request& request) noexcept {
  if (moving.lent) moving.put_in_flight->tensor = moving.parts.front();
  if (!moving.put_in_flight->awaited) return;
  SlotAccess::follow(request, self(), moving.ticket);
}

bool RemoteSlotState::is_flying(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(pending_mutex_);
  in_flight_.poll(*owner_.channel);
  return in_flight_.holds_up(ticket);
}

Status RemoteSlotState::in_flight_failure(const Status& why) const noexcept {
  if (Status peer_status = peer_failure("put"); !peer_status.ok()) return peer_status;
  ErrorDetail detail = why.detail();
  detail.operation = "put";
  detail.slot = spec_.name;
  return Status(std::move(detail));
}

bool RemoteSlotState::has_completed() noexcept {
  const std::lock_guard lock(pending_mutex_);
  in_flight_.poll(*owner_.channel);
  return in_flight_.empty();
}

void RemoteSlotState::abandon() noexcept {
  if (!in_flight_.empty() &&
      !local_.waiter.wait_alone([this] { return has_completed(); }, kLanding)) {
    local_.log->warn(
        Subsystem::slot,
        "puts into slot \"{}\" of rank {} are still under way: what they read is never "
        "given back",
        spec_.name, owner_.rank);
    in_flight_.forget_for_ever();
    (void)new (std::nothrow) p2p::OwnedBlock(std::move(records_));  // on purpose
  }
  if (!dynamic() || owner_.silent.load()) return;
  take_back_lent();
  for (Lent& lent : lent_)
    if (lent.tensor.arena() == local_.adopted.get())
      (void)new (std::nothrow) Tensor(std::move(lent.tensor));  // on purpose: nobody may free it
}

}  // namespace weft::detail
