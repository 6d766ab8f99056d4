// Waiting for a put, and what it lacks where the wait ends by its deadline.
#include <fmt/format.h>

#include "p2p/slot/remote_slot_state.hpp"

namespace weft::detail {

using p2p::WaitEnd;

Status RemoteSlotState::wait_put(std::uint64_t ticket, Deadline deadline) noexcept {
  const WaitEnd end =
      local_.waiter.wait([&] { return put_ended(ticket); },
                         [this] { return !mesh_.peer_status(needs_, needed_).ok(); }, deadline,
                         [&] { return about(stats::Operation::put, ticket); });
  if (end == WaitEnd::ready) return put_outcome(ticket);
  if (end == WaitEnd::broken) return peer_failure("put");
  local_.recorder.control(stats::Event::timeout, owner_.rank, id_, sent_.load() + 1);
  const std::lock_guard lock(pending_mutex_);
  p2p::Awaited awaited = late_put(ticket);
  const bool on_its_way = is_on_its_way(ticket);
  ErrorDetail detail =
      failure(Code::timeout, "put", std::move(awaited.lack),
              on_its_way ? "it stays lent: wait again"
                         : "is the owner at the same step? the put stays pending; cancel() ends it")
          .detail();
  detail.sequence_expected = awaited.sequence;
  if (!on_its_way) detail.sequence_seen = known_released_.load();
  return Status(std::move(detail));
}

p2p::Awaited RemoteSlotState::late_put(std::uint64_t ticket) const {
  p2p::Awaited awaited{.slot = spec_.name, .peer = owner_.rank, .host = owner_.host(), .lack = {}};
  if (is_on_its_way(ticket)) {
    awaited.lack = fmt::format("the tensor is still on its way to rank {} (host {})", owner_.rank,
                               owner_.host());
    return awaited;
  }
  awaited.lack = fmt::format("rank {} (host {}){} has not let go of an earlier tensor", owner_.rank,
                             owner_.host(), mesh_.suspicion(owner_.rank));
  // The tensor itself, if it was announced; otherwise the one that lies in the buffer it needs.
  const std::uint64_t announced = (*pending_)[ticket % kMaxPending].sequence;
  const std::uint64_t next = sent_.load() + 1;
  if (announced != 0 || next > spec_.depth)
    awaited.sequence = announced != 0 ? announced : next - spec_.depth;
  return awaited;
}

p2p::Awaited RemoteSlotState::awaited_put(std::uint64_t ticket) {
  const std::lock_guard lock(pending_mutex_);
  return late_put(ticket);
}

}  // namespace weft::detail
