// The public handles of signals; each forwards to a part of the rank's SignalTable.
#include <utility>

#include "base/control_call.hpp"
#include "base/formatted.hpp"
#include "p2p/signal/signal_table.hpp"
#include "p2p/slot/put/writer.hpp"

namespace weft {

Signal::Signal() noexcept = default;
Signal::Signal(std::shared_ptr<detail::SignalState> state) noexcept : state_(std::move(state)) {}
Signal::Signal(Signal&&) noexcept = default;
Signal& Signal::operator=(Signal&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Signal::~Signal() {
  if (state_ && !state_->table.local().forked()) state_->table.close(std::move(state_));
}

std::uint64_t Signal::value() const noexcept {
  if (state_->table.local().forked()) return 0;  // the memory belongs to the parent process
  return state_->line().word.load(std::memory_order_acquire);
}
std::uint64_t Signal::fetch_add(std::uint64_t amount) noexcept {
  if (state_->table.local().forked()) return value();
  const std::uint64_t before = state_->apply(p2p::SignalAct::add, amount, 0);
  state_->table.local().ring();
  return before;
}
std::uint64_t Signal::compare_swap(std::uint64_t expected, std::uint64_t desired) noexcept {
  if (state_->table.local().forked()) return value();
  const std::uint64_t before = state_->apply(p2p::SignalAct::compare_swap, desired, expected);
  state_->table.local().ring();
  return before;
}
Result<std::uint64_t> Signal::wait_at_least(std::uint64_t least, Deadline deadline) noexcept {
  const p2p::LocalRank& local = state_->table.local();
  if (local.forked()) return local.fork_refusal("wait_at_least", state_->name);
  return state_->table.wait_at_least(*state_, least, deadline);
}
void Signal::also_needs(std::span<const int> ranks) {
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
  std::swap(state_, other.state_);
  return *this;
}
RemoteSignal::~RemoteSignal() {
  if (state_ && !state_->table.local().forked()) state_->table.detach(state_);
}

int RemoteSignal::owner() const noexcept { return state_->owner.rank; }
bool RemoteSignal::is_direct() const noexcept { return state_->direct != nullptr; }

Status RemoteSignal::add(std::uint64_t amount) noexcept {
  const p2p::LocalRank& local = state_->table.local();
  if (local.forked()) return local.fork_refusal("add", state_->name);
  return state_->table.add(*state_, amount);
}
Result<std::uint64_t> RemoteSignal::fetch_add(std::uint64_t amount, Deadline deadline) noexcept {
  const p2p::LocalRank& local = state_->table.local();
  if (local.forked()) return local.fork_refusal("fetch_add", state_->name);
  return state_->table.act(*state_, p2p::SignalAct::add, amount, 0, deadline);
}
Result<std::uint64_t> RemoteSignal::compare_swap(std::uint64_t expected, std::uint64_t desired,
                                                 Deadline deadline) noexcept {
  const p2p::LocalRank& local = state_->table.local();
  if (local.forked()) return local.fork_refusal("compare_swap", state_->name);
  return state_->table.act(*state_, p2p::SignalAct::compare_swap, desired, expected, deadline);
}
Status RemoteSignal::put(RemoteSlot& slot, const Tensor& tensor, std::uint64_t amount,
                         Deadline deadline) noexcept {
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
