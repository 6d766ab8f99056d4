#include "p2p/rendezvous/rendezvous_table.hpp"

#include <algorithm>
#include <new>

#include "p2p/rendezvous/rendezvous_messages.hpp"

namespace weft::p2p {

std::shared_ptr<detail::RendezvousState> RendezvousTable::open(const RendezvousSpec& spec,
                                                               std::string_view suffix,
                                                               std::span<const int> members,
                                                               Deadline deadline) {
  auto state = std::make_shared<detail::RendezvousState>(local_, mesh_, slots_, *this, spec, suffix,
                                                         members);
  {
    const std::lock_guard lock(mutex_);
    closing_.reserve(open_.size() + closing_.size() + 1);  // so that close() does not allocate
    open_.push_back(state);
  }
  ++count_;
  try {
    state->open(deadline);
  } catch (...) {
    close(*state);
    throw;
  }
  return state;
}

void RendezvousTable::close(detail::RendezvousState& state) noexcept {
  const bool free = state.begin_close();
  std::shared_ptr<detail::RendezvousState> known;  // goes when the lock has
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(
      open_, &state, [](const std::shared_ptr<detail::RendezvousState>& one) { return one.get(); });
  if (found == open_.end()) return;
  known = std::move(*found);
  open_.erase(found);
  if (free)
    --count_;
  else
    closing_.push_back(std::move(known));
}

void RendezvousTable::stop() noexcept {
  // Without a copy of the lists: a rank may leave because it is short of memory.
  for (std::size_t i = 0;; ++i) {
    std::shared_ptr<detail::RendezvousState> state;
    {
      const std::lock_guard lock(mutex_);
      if (i >= open_.size() + closing_.size()) return;
      state = i < open_.size() ? open_[i] : closing_[i - open_.size()];
    }
    state->stop();
  }
}

std::vector<std::shared_ptr<detail::RendezvousState>> RendezvousTable::all() const {
  const std::lock_guard lock(mutex_);
  auto states = open_;
  states.insert(states.end(), closing_.begin(), closing_.end());
  return states;
}

void RendezvousTable::report(std::vector<EdgeReport>& edges) const {
  for (const auto& state : all()) state->report(edges);
}

void RendezvousTable::on_message(Peer& peer, std::span<const std::byte> bytes) {
  const auto message = parse<RendezvousOnControl>(bytes);
  if (!message) return;
  const std::string name = message->name.get();
  for (const auto& state : all())
    if (state->shared_name() == name) return state->on_control(peer.rank, message->bytes);
  local_.log->debug(Subsystem::slot, "rank {} sent a message for rendezvous {}, which is not open",
                    peer.rank, name);
}

bool RendezvousTable::wants_bell() const noexcept {
  if (count_.load() == 0) return false;
  try {
    const auto states = all();
    return std::any_of(states.begin(), states.end(),
                       [](const auto& state) { return state->wants_service(); });
  } catch (const std::bad_alloc&) {
    return true;
  }
}

void RendezvousTable::serve() noexcept {
  if (count_.load() == 0) return;
  try {
    serve_all();
  } catch (const std::bad_alloc&) {
    local_.progress.turn_soon();
  }
}

void RendezvousTable::serve_all() {
  for (const auto& state : all())
    if (state->wants_service() || state->is_held_up()) state->poll();
  std::vector<std::shared_ptr<detail::RendezvousState>> closing;
  {
    const std::lock_guard lock(mutex_);
    closing = closing_;
  }
  std::erase_if(closing, [](const auto& state) { return !state->is_free(); });
  for (const auto& state : closing) {
    const std::lock_guard lock(mutex_);
    std::erase(closing_, state);
    --count_;
  }
}

}  // namespace weft::p2p
