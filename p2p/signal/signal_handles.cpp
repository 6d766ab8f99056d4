// The public handles of signals; each forwards to a part of the rank's SignalTable.
#include <utility>

#include "base/control_call.hpp"
#include "base/formatted.hpp"
#include "base/handle.hpp"
#include "p2p/signal/signal_table.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft {

bool detail::SignalState::over() const noexcept { return table.local().over(); }
Status detail::SignalState::refusal(const char* operation) const noexcept {
  return table.local().refusal(operation, name);
}
bool detail::RemoteSignalState::over() const noexcept { return table.local().over(); }
Status detail::RemoteSignalState::refusal(const char* operation) const noexcept {
  return table.local().refusal(operation, name);
}

namespace {

void release_end(std::shared_ptr<detail::SignalState>& signal) noexcept {
  if (is_usable(signal)) signal->table.close(*signal);
  signal.reset();
}
void release_end(std::shared_ptr<detail::RemoteSignalState>& remote) noexcept {
  if (is_usable(remote)) remote->table.detach(*remote);
  remote.reset();
}

}  // namespace

Signal::Signal() noexcept = default;
Signal::Signal(std::shared_ptr<detail::SignalState> state) noexcept : state_(std::move(state)) {}
Signal::Signal(Signal&&) noexcept = default;
Signal& Signal::operator=(Signal&& other) noexcept {
  if (this == &other) return *this;
  release_end(state_);
  state_ = std::move(other.state_);
  return *this;
}
Signal::~Signal() { release_end(state_); }

std::uint64_t Signal::value() const noexcept {
  // In a fork the memory belongs to the parent process.
  if (!state_ || state_->table.local().forked()) return 0;
  return state_->line().word.load(std::memory_order_acquire);
}
std::uint64_t Signal::fetch_add(std::uint64_t amount) noexcept {
  if (!is_usable(state_)) return value();
  const std::uint64_t before = state_->apply(p2p::SignalAct::add, amount, 0);
  state_->table.local().ring();
  return before;
}
std::uint64_t Signal::compare_swap(std::uint64_t expected, std::uint64_t desired) noexcept {
  if (!is_usable(state_)) return value();
  const std::uint64_t before = state_->apply(p2p::SignalAct::compare_swap, desired, expected);
  state_->table.local().ring();
  return before;
}
Result<std::uint64_t> Signal::wait_at_least(std::uint64_t least, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "Signal", "wait_at_least");
  return state_->table.wait_at_least(*state_, least, deadline);
}
void Signal::also_needs(std::span<const int> ranks) {
  require_usable(state_, "Signal", "also_needs");
  control_call("also_needs", [&] {
    state_->table.mesh().check_ranks(ranks, "also_needs");
    state_->needs.assign(ranks.begin(), ranks.end());
  });
}

RemoteSignal::RemoteSignal() noexcept = default;
RemoteSignal::RemoteSignal(std::shared_ptr<detail::RemoteSignalState> state) noexcept
    : state_(std::move(state)) {}
RemoteSignal::RemoteSignal(RemoteSignal&&) noexcept = default;
RemoteSignal& RemoteSignal::operator=(RemoteSignal&& other) noexcept {
  if (this == &other) return *this;
  release_end(state_);
  state_ = std::move(other.state_);
  return *this;
}
RemoteSignal::~RemoteSignal() { release_end(state_); }

int RemoteSignal::owner() const noexcept { return state_ ? state_->owner.rank : -1; }
bool RemoteSignal::is_direct() const noexcept { return state_ && state_->direct != nullptr; }

Status RemoteSignal::add(std::uint64_t amount) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "RemoteSignal", "add");
  return state_->table.add(*state_, amount);
}
Result<std::uint64_t> RemoteSignal::fetch_add(std::uint64_t amount, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "RemoteSignal", "fetch_add");
  return state_->table.act(*state_, p2p::SignalAct::add, amount, 0, deadline);
}
Result<std::uint64_t> RemoteSignal::compare_swap(std::uint64_t expected, std::uint64_t desired,
                                                 Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "RemoteSignal", "compare_swap");
  return state_->table.act(*state_, p2p::SignalAct::compare_swap, desired, expected, deadline);
}
Status RemoteSignal::put(RemoteSlot& slot, const Tensor& tensor, std::uint64_t amount,
                         Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "RemoteSignal", "put");
  if (!is_usable(slot.state_)) [[unlikely]]
    return unusable(slot.state_, "RemoteSlot", "put");
  if (slot.owner() != owner())
    return state_->table.failure(
        Code::bad_argument, "put", *state_,
        formatted("the slot is rank {}'s, the signal rank {}'s", slot.owner(), owner()),
        "a signal follows puts to its own owner");
  if (&slot.state_->owner() != &state_->owner)
    return state_->table.failure(Code::bad_argument, "put", *state_,
                                 "the slot was attached by another world than the signal",
                                 "attach both by one world");
  if (Status status = slot.put(tensor, Until::delivered).wait(deadline); !status.ok())
    return status;
  return add(amount);
}

}  // namespace weft
