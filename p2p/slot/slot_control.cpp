// Handles peers' messages about slots, on the progress thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "p2p/slot/attach/grant.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {
void SlotTable::on_message(Peer& peer, std::span<const std::byte> bytes) {
  MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  bool understood = false;
  const auto handle = [&](auto sample, const auto& act) {
    using Message = decltype(sample);
    if (type != Message::kType) return;
    if (const auto message = parse<Message>(bytes)) {
      understood = true;
      act(*message);
    }
  };
  handle(AttachMessage{}, [&](const AttachMessage& m) { on_attach(peer, m); });
  handle(AttachedMessage{}, [&](const AttachedMessage& m) {
    const auto state = remote(m.remote_id);
    if (!state || &state->owner() != &peer) return;
    state->granted(m);
    if (state->answer().state() == AttachAnswer::State::refused)  // the attachment must not stay
      mesh_.send(peer, DetachMessage{.slot_id = m.slot_id,
                                     .attachment_id = m.attachment_id,
                                     .remote_id = m.remote_id});
  });
  handle(RefusedMessage{}, [&](const RefusedMessage& m) {
    const auto state = remote(m.remote_id);
    if (!state || &state->owner() != &peer) return;
    state->refused(Status(ErrorDetail{
        .code = code_of(m.code), .message = m.text.get(), .peer = peer.rank, .host = peer.host()}));
  });
  handle(WithdrawMessage{}, [&](const WithdrawMessage& m) {
    std::erase_if(waiting_, [&](const auto& entry) {
      return entry.second.peer == &peer && entry.second.message.remote_id == m.remote_id;
    });
    count_waiting();
    // Granted while the withdrawal was under way: the attachment must be free before the next
    // attach.
    bool attachment_made = false;
    std::vector<std::uint64_t> free;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, state] : slots_) {
        if (!state->detach_peer(peer, m.remote_id)) continue;
        attachment_made = true;
        if (state->is_free()) free.push_back(id);
      }
    }
    for (const std::uint64_t id : free) end_quarantine(id);
    if (!attachment_made) mesh_.send(peer, DetachedMessage{.remote_id = m.remote_id});
  });
  handle(DetachMessage{}, [&](const DetachMessage& m) { on_detach(peer, m); });
  handle(DetachedMessage{}, [&](const DetachedMessage& m) {
    if (const auto state = remote(m.remote_id); state && &state->owner() == &peer)
      forget_remote(m.remote_id);
  });
  handle(ChunkWantedMessage{}, [&](const ChunkWantedMessage& m) {
    const bool is_gpus = local_.gpus != nullptr && local_.gpus->chunk(m.chunk).has_value();
    if (is_gpus || local_.has_chunk(m.chunk)) mesh_.share(peer, m.chunk);
  });
  handle(CreditWantedMessage{}, [&](const CreditWantedMessage& m) {
    if (const auto state = slot(m.slot_id)) state->credit_wanted(peer, m.remote_id);
  });
  handle(GpuWayMessage{}, [&](const GpuWayMessage& m) {
    const auto state = slot(m.slot_id);
    if (!state || !state->gpu_way(peer, m)) return;
    asked_.push_back(state);
    local_.want_service();
  });
  handle(GpuPageSeenMessage{}, [&](const GpuPageSeenMessage& m) {
    const auto state = remote(m.remote_id);
    if (state && &state->owner() == &peer) state->gpu_page_seen(m);
  });
  handle(FlowQuestionMessage{}, [&](const FlowQuestionMessage& m) {
    if (const auto state = slot(m.slot_id)) state->flow_asked(peer, m);
  });
  handle(FlowAnswerMessage{}, [&](const FlowAnswerMessage& m) {
    const auto state = remote(m.remote_id);
    if (state && &state->owner() == &peer) state->flow_answered(m);
  });
  handle(PutRefusedMessage{}, [&](const PutRefusedMessage& m) {
    if (const auto state = slot(m.slot_id)) state->put_refused(peer, m);
  });
  handle(ClosedMessage{}, [&](const ClosedMessage& m) {
    const auto state = remote(m.remote_id);
    if (!state || &state->owner() != &peer) return;
    if (state->answer().state() == AttachAnswer::State::asked)
      state->answer().set_too_late();
    else
      state->owner_closed();
  });
  handle(ClosedAgreedMessage{}, [&](const ClosedAgreedMessage& m) {
    if (const auto state = slot(m.slot_id); state && state->agreed(peer, m.attachment_id))
      end_quarantine(m.slot_id);
  });
  if (!understood)
    local_.log->warn(Subsystem::slot, "rank {} sent a message of type {} and {} bytes: ignored",
                     peer.rank, static_cast<std::uint32_t>(type), bytes.size());
}

void SlotTable::on_attach(Peer& peer, const AttachMessage& message) {
  const std::string name = message.spec.name.get();
  std::shared_ptr<detail::ExposedSlot> found;
  bool too_late = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_name_.find(name); at != by_name_.end()) found = at->second;
    if (!found) ++waiting_count_;
    too_late = !found && closed_.holds(name);
  }
  if (found) {
    decide(peer, *found, message);
    return;
  }
  waiting_.emplace(name, WaitingAttach{&peer, message});  // it may be exposed again
  if (too_late) mesh_.send(peer, ClosedMessage{.remote_id = message.remote_id});
}

void SlotTable::decide(Peer& peer, detail::ExposedSlot& slot, const AttachMessage& message) {
  AttachedMessage granted;
  Status status;
  try {
    status = slot.admit(peer, message, granted);
  } catch (const Error& error) {  // the control arena can't grow
    status = error.status();
  }
  if (status.ok()) {
    mesh_.send(peer, granted);
    return;
  }
  local_.recorder.control(stats::Event::attachment_refused, peer.rank, slot.id(),
                          static_cast<std::uint64_t>(status.code()));
  RefusedMessage refused;
  refused.remote_id = message.remote_id;
  refused.code = static_cast<std::uint32_t>(status.code());
  const std::string hint =
      status.detail().hint.empty() ? "" : fmt::format("; {}", status.detail().hint);
  refused.text.set(status.detail().message + hint);
  mesh_.send(peer, refused);
}

void SlotTable::count_waiting() {
  const std::lock_guard lock(mutex_);
  waiting_count_ = waiting_.size();
}

void SlotTable::retry_waiting(const std::string& name) {
  std::vector<WaitingAttach> due;
  const auto [first, last] = waiting_.equal_range(name);
  for (auto at = first; at != last; ++at) due.push_back(at->second);
  waiting_.erase(first, last);
  count_waiting();
  for (const WaitingAttach& waiting : due)
    if (!waiting.peer->gone()) on_attach(*waiting.peer, waiting.message);
}

void SlotTable::on_detach(Peer& peer, const DetachMessage& message) {
  const auto state = slot(message.slot_id);
  const bool attachment_made = state && state->detach_peer(peer, message.remote_id);
  if (state && state->is_free()) end_quarantine(message.slot_id);
  if (!attachment_made) mesh_.send(peer, DetachedMessage{.remote_id = message.remote_id});
}

void SlotTable::end_quarantine(std::uint64_t slot_id) {
  std::shared_ptr<detail::ExposedSlot> state;
  {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(slot_id);
    if (found == slots_.end()) return;
    state = std::move(found->second);
    slots_.erase(found);
  }
  state->count_quarantine(false);
}

void SlotTable::on_gone(Peer& peer) {
  if (local_.gpus != nullptr) local_.gpus->peers().forget(peer.rank);
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.peer == &peer; });
  count_waiting();
  std::vector<std::uint64_t> free;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : slots_)
      if (state->peer_gone(peer)) free.push_back(id);
  }
  for (const std::uint64_t id : free) end_quarantine(id);
  // Those that only waited for this peer's answer. They go when the lock has: they may hold the
  // last handle of adopted memory, whose deleter is the user's.
  std::vector<std::shared_ptr<detail::RemoteEnd>> unanswered;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : remotes_)
      if (state->leaving().started && &state->owner() == &peer) unanswered.push_back(state);
  }
  for (const auto& state : unanswered) forget_remote(state->id());
}

void SlotTable::drop_pending() {
  std::vector<std::shared_ptr<detail::RemoteEnd>> remotes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : remotes_) remotes.push_back(state);
    for (const auto& [id, state] : slots_) state->end_streams();
  }
  for (const auto& state : remotes) state->drop_pending();
}

void SlotTable::serve_pending() {
  if (!local_.service_wanted.exchange(false)) return;
  std::vector<std::shared_ptr<detail::RemoteEnd>> remotes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, state] : remotes_) remotes.push_back(state);
    for (const auto& [id, state] : slots_)
      if (state->take_wish() && std::ranges::find(asked_, state) == asked_.end())
        asked_.push_back(state);
  }
  std::erase_if(asked_, [](const auto& slot) { return !slot->serve(); });
  bool is_copied = !asked_.empty();
  bool pending = is_copied;
  for (const auto& state : remotes) {
    is_copied = state->is_copying() || is_copied;
    if (state->leaving().unsent) say_detached(*state);
    if (state->leaving().answered) forget_remote(state->id());
    pending = state->serve_pending() || is_copied || pending;
  }
  if (pending) local_.service_wanted.store(true);
  if (is_copied) local_.progress.turn_soon();  // no bell rings when a GPU's copy has ended
}

bool SlotTable::came_silently() {
  bool any = false;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, state] : slots_) any = state->came_silently() || any;
  return any;
}

}  // namespace weft::p2p
