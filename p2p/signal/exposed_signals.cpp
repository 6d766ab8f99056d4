#include "p2p/signal/exposed_signals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "base/given_deadline.hpp"
#include "p2p/signal/signal_failure.hpp"

namespace weft::detail {

using p2p::SignalAct;

SignalState::SignalState(p2p::ExposedSignals& table, std::string name, std::uint64_t id,
                         std::uint64_t value)
    : table(table),
      name(std::move(name)),
      id(id),
      block(table.local().control, sizeof(p2p::SignalLine)) {
  new (block.data()) p2p::SignalLine{};
  line().word.store(value);
}

std::uint64_t SignalState::apply(SignalAct act, std::uint64_t operand,
                                 std::uint64_t expected) noexcept {
  if (act == SignalAct::add) return line().word.fetch_add(operand);
  line().word.compare_exchange_strong(expected, operand);
  return expected;  // the value found, if it differed
}

}  // namespace weft::detail

namespace weft::p2p {

using detail::SignalState;

std::shared_ptr<SignalState> ExposedSignals::expose(const std::string& name, std::uint64_t value) {
  check_signal_name(local_, mesh_, "expose", name);
  std::shared_ptr<SignalState> signal;
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    if (by_name_.contains(name))
      signal_failure(local_, mesh_, Code::duplicate_name, "expose", name, -1,
                     fmt::format("rank {} already exposes a signal of that name", local_.rank),
                     "destroy the other first, or give this one another name")
          .or_throw();
    signal = std::make_shared<SignalState>(*this, name, next_id_++, value);
    by_name_.emplace(name, signal);
    signals_.emplace(signal->id, signal);
    awaited = waiting_.contains(name);
  }
  if (awaited)
    local_.progress.post([this, signal] {
      std::vector<Waiting> waiting;
      {
        const std::lock_guard lock(mutex_);
        const auto [first, last] = waiting_.equal_range(signal->name);
        for (auto each = first; each != last; ++each) waiting.push_back(each->second);
        waiting_.erase(first, last);
      }
      for (const Waiting& each : waiting) grant(*each.peer, each.remote_id, *signal);
    });
  return signal;
}

void ExposedSignals::close(const SignalState& closing) noexcept {
  closing.line().closed.store(1);
  // A peer can write that word, so the table may have let go of it already.
  auto signal = this->signal(closing.id);
  {
    const std::lock_guard lock(mutex_);
    by_name_.erase(closing.name);
  }
  if (signal) local_.progress.post([this, signal = std::move(signal)] { release(signal); });
}

void ExposedSignals::release(const std::shared_ptr<SignalState>& signal) {
  if (signal->line().closed.load() == 0 || !signal->known_to.empty()) return;
  const std::lock_guard lock(mutex_);
  signals_.erase(signal->id);
}

std::shared_ptr<SignalState> ExposedSignals::signal(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = signals_.find(id);
  return found == signals_.end() ? nullptr : found->second;
}

void ExposedSignals::on_left(const Peer& peer, std::uint64_t signal_id) {
  const auto signal = this->signal(signal_id);
  if (!signal) return;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(signal->known_to.begin(), signal->known_to.end(), &peer);
    if (found != signal->known_to.end()) signal->known_to.erase(found);
  }
  release(signal);
}

void ExposedSignals::on_gone(const Peer& peer) {
  std::vector<std::shared_ptr<SignalState>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, signal] : signals_) {
      std::erase(signal->known_to, &peer);
      all.push_back(signal);
    }
    std::erase_if(waiting_, [&](const auto& each) { return each.second.peer == &peer; });
  }
  for (const auto& signal : all) release(signal);
}

Result<std::uint64_t> ExposedSignals::wait_at_least(const SignalState& signal, std::uint64_t least,
                                                    Deadline deadline) const noexcept {
  const auto& word = signal.line().word;
  const auto value = [&word] { return word.load(std::memory_order_acquire); };
  stats::WaitDetailsRoom details;
  const WaitEnd end = local_.waiter.wait(
      [&] { return value() >= least; }, [&] { return !mesh_.peer_status(signal.needs).ok(); },
      deadline,
      [&] {
        stats::WaitDetails& made = details.make();
        made.set_text(signal.name);
        return stats::WaitAbout{
            .operation = stats::Operation::signal, .sequence = least, .details = &made};
      });
  if (end == WaitEnd::ready) return value();
  int peer = -1;
  const Status why =
      end == WaitEnd::broken
          ? mesh_.peer_status(signal.needs)
          : signal_failure(local_, mesh_, Code::timeout, "wait_at_least", signal.name, peer,
                           text_or_empty([&] {
                             return fmt::format("the signal is {}, not yet {}; {}", value(), least,
                                                adders(signal, peer));
                           }),
                           "are these ranks at the same step? a longer deadline: WEFT_TIMEOUT");
  return altered(hinted_for(deadline, why), [&](ErrorDetail& detail) {
    detail.operation = "wait_at_least";
    detail.slot = signal.name;
    detail.message = in_signal(signal.name, detail.message);
    if (peer >= 0) detail.peer = peer;
    detail.sequence_expected = least;
    detail.sequence_seen = value();
  });
}

std::string ExposedSignals::adders(const SignalState& signal, int& peer) const {
  constexpr std::size_t kMostNamed = 4;
  std::vector<int> ranks;
  {
    const std::lock_guard lock(mutex_);
    for (const Peer* const each : signal.known_to)
      if (std::ranges::find(ranks, each->rank) == ranks.end()) ranks.push_back(each->rank);
  }
  if (ranks.empty()) return "no rank has attached";
  peer = ranks.front();
  std::string text = "attached:";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    text += fmt::format("{} rank {} (host {}){}", i == 0 ? "" : ",", ranks[i],
                        mesh_.peer(ranks[i]).host(), mesh_.suspicion(ranks[i]));
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

void ExposedSignals::on_wanted(Peer& peer, const SignalWanted& wanted) {
  std::shared_ptr<SignalState> signal;
  {
    const std::string name = wanted.name.get();
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    if (found != by_name_.end())
      signal = found->second;
    else if (waiting_.size() < kMostWaiting)
      waiting_.emplace(name, Waiting{&peer, wanted.remote_id});
  }
  if (signal) grant(peer, wanted.remote_id, *signal);
}

void ExposedSignals::grant(Peer& peer, std::uint64_t remote_id, SignalState& signal) {
  SignalGranted granted;
  granted.remote_id = remote_id;
  granted.signal_id = signal.id;
  const Block& block = signal.block.block();
  if (mesh_.share(peer, block.chunk))
    granted.line = {block.chunk, block.offset, sizeof(SignalLine)};
  if (!peer.gone()) {
    const std::lock_guard lock(mutex_);
    signal.known_to.push_back(&peer);
  }
  mesh_.send(peer, granted);
}

void ExposedSignals::on_request(Peer& peer, const SignalRequest& request) {
  auto signal = this->signal(request.signal_id);
  if (signal && signal->line().closed.load() != 0) signal = nullptr;
  SignalReply reply;
  reply.closed = signal ? 0 : 1;
  reply.remote_id = request.remote_id;
  reply.number = request.number;
  if (signal) {
    reply.before = signal->apply(request.act, request.operand, request.expected);
    local_.ring();
  }
  if (request.remote_id != 0) mesh_.send(peer, reply);
}

}  // namespace weft::p2p
