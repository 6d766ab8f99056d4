#include "p2p/signal/remote_signals.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/signal/signal_failure.hpp"

namespace weft::p2p {

using detail::RemoteSignalState;
using Answer = RemoteSignalState::Answer;

namespace {

SignalLeft left(std::uint64_t signal_id) noexcept {
  SignalLeft message;
  message.signal_id = signal_id;
  return message;
}

stats::WaitAbout about(const RemoteSignalState& remote, stats::WaitDetails& details) noexcept {
  details.set_text(remote.name);
  return {.operation = stats::Operation::signal, .peer = remote.owner.rank, .details = &details};
}

}  // namespace

Status RemoteSignals::failure(Code code, const char* operation, const RemoteSignalState& remote,
                              std::string_view message, std::string_view hint) const noexcept {
  return signal_failure(local_, mesh_, code, operation, remote.name, remote.owner.rank, message,
                        hint);
}

std::shared_ptr<RemoteSignalState> RemoteSignals::attach(int owner, const std::string& name,
                                                         Deadline deadline) {
  check_signal_name(local_, mesh_, "attach", name);
  mesh_.check_ranks({&owner, 1}, "attach");
  Peer& peer = mesh_.peer(owner);
  std::shared_ptr<RemoteSignalState> remote;
  {
    const std::lock_guard lock(mutex_);
    remote = std::make_shared<RemoteSignalState>(*this, peer, name, next_id_++);
    remotes_.emplace(remote->id, remote);
  }
  local_.progress.post([this, remote] {
    SignalWanted wanted;
    wanted.remote_id = remote->id;
    wanted.name.set(remote->name);
    mesh_.send(remote->owner, wanted);
  });
  stats::WaitDetailsRoom details;
  const auto answered = [&] {
    if (remote->answer.load(std::memory_order_acquire) == Answer::none) local_.progress.help();
    return remote->answer.load(std::memory_order_acquire) != Answer::none;
  };
  const WaitEnd end = local_.waiter.wait(
      answered, [&] { return peer.gone(); }, deadline,
      [&] { return about(*remote, details.make()); });
  if (end == WaitEnd::ready && remote->answer.load() == Answer::granted) return remote;
  detach(*remote);
  if (end == WaitEnd::broken) gone("attach", *remote).or_throw();
  if (end == WaitEnd::timeout)
    failure(Code::timeout, "attach", *remote,
            fmt::format("rank {} (host {}) has not exposed the signal{}", owner, peer.host(),
                        mesh_.suspicion(owner)),
            "is the name the same on both ranks, and does the owner get that far?")
        .or_throw();
  failure(Code::exhausted, "attach", *remote,
          fmt::format("rank {} (host {}) can't let this rank reach the signal", owner, peer.host()),
          "its log says why")
      .or_throw();
  return nullptr;
}

void RemoteSignals::detach(const RemoteSignalState& remote) noexcept {
  std::shared_ptr<RemoteSignalState> kept;
  {
    const std::lock_guard lock(mutex_);
    const auto found = remotes_.find(remote.id);
    if (found != remotes_.end()) kept = std::move(found->second);
    remotes_.erase(remote.id);
  }
  // If the attach is not answered yet, on_granted() will find the remote end gone and detach it.
  if (remote.answer.load(std::memory_order_acquire) != Answer::granted) return;
  local_.progress.post([this, &owner = remote.owner, signal_id = remote.signal_id] {
    mesh_.send(owner, left(signal_id));
  });
}

Status RemoteSignals::gone(const char* operation, const RemoteSignalState& remote) const noexcept {
  const Status peer_status = mesh_.peer_status(remote.owner.rank);
  if (peer_status.ok()) return peer_status;
  return altered(peer_status, [&](ErrorDetail& detail) {
    detail.operation = operation;
    detail.slot = remote.name;
    detail.message = in_signal(remote.name, detail.message);
  });
}

Status RemoteSignals::add(RemoteSignalState& remote, std::uint64_t amount) noexcept {
  if (remote.owner.gone()) return gone("add", remote);
  if (SignalLine* const line = remote.direct) {
    if (line->closed.load(std::memory_order_relaxed) != 0)
      return failure(Code::closed, "add", remote,
                     formatted("rank {} has closed the signal", remote.owner.rank), "");
    line->word.fetch_add(amount);
    remote.owner.channel->notify();
    return {};
  }
  local_.progress.post([this, &owner = remote.owner, signal_id = remote.signal_id, amount] {
    SignalRequest request;
    request.signal_id = signal_id;
    request.operand = amount;
    mesh_.send(owner, request);
  });
  return {};
}

Result<std::uint64_t> RemoteSignals::act(RemoteSignalState& remote, SignalAct act,
                                         std::uint64_t operand, std::uint64_t expected,
                                         Deadline deadline) noexcept {
  const char* const operation = act == SignalAct::add ? "fetch_add" : "compare_swap";
  const auto closed = [&] {
    return failure(Code::closed, operation, remote,
                   formatted("rank {} has closed the signal", remote.owner.rank), "");
  };
  if (remote.owner.gone()) return gone(operation, remote);
  if (SignalLine* const line = remote.direct) {
    if (line->closed.load(std::memory_order_relaxed) != 0) return closed();
    std::uint64_t before = expected;
    if (act == SignalAct::add)
      before = line->word.fetch_add(operand);
    else
      line->word.compare_exchange_strong(before, operand);
    remote.owner.channel->notify();
    return before;
  }
  const std::uint64_t number = ++remote.asked;
  SignalRequest request;
  request.act = act;
  request.signal_id = remote.signal_id;
  request.remote_id = remote.id;
  request.number = number;
  request.operand = operand;
  request.expected = expected;
  local_.progress.post([this, &owner = remote.owner, request] { mesh_.send(owner, request); });
  stats::WaitDetailsRoom details;
  const auto answered = [&] {
    if (remote.answered.load(std::memory_order_acquire) >= number) return true;
    local_.progress.help();
    return remote.answered.load(std::memory_order_acquire) >= number;
  };
  const WaitEnd end = local_.waiter.wait(
      answered, [&] { return remote.owner.gone(); }, deadline,
      [&] { return about(remote, details.make()); });
  if (end == WaitEnd::broken) return gone(operation, remote);
  if (end == WaitEnd::timeout)
    return failure(Code::timeout, operation, remote,
                   formatted("rank {} (host {}) has not answered{}", remote.owner.rank,
                             remote.owner.host(), mesh_.suspicion(remote.owner.rank)),
                   "the operation may still take effect");
  if (remote.reply.closed) return closed();
  return remote.reply.before;
}

std::shared_ptr<RemoteSignalState> RemoteSignals::remote(const Peer& peer, std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = remotes_.find(id);
  if (found == remotes_.end() || &found->second->owner != &peer) return nullptr;
  return found->second;
}

void RemoteSignals::on_granted(Peer& peer, const SignalGranted& granted) {
  const auto remote = this->remote(peer, granted.remote_id);
  if (!remote || remote->answer.load() != Answer::none)
    return mesh_.send(peer, left(granted.signal_id));
  const auto line = peer.channel->resolve(granted.line);
  const bool good = granted.line.bytes == sizeof(SignalLine) && line.ok() &&
                    sort_of_chunk(granted.line.chunk) == ArenaSort::control &&
                    granted.line.offset % alignof(SignalLine) == 0;
  if (good) {
    remote->signal_id = granted.signal_id;
    remote->direct = reinterpret_cast<SignalLine*>(peer.channel->map(*line));
  }
  if (!good) mesh_.send(peer, left(granted.signal_id));
  remote->answer.store(good ? Answer::granted : Answer::broken, std::memory_order_release);
  local_.ring();
}

void RemoteSignals::on_reply(Peer& peer, const SignalReply& reply) {
  const auto remote = this->remote(peer, reply.remote_id);
  // A late reply to an operation that was given up: a newer one has been answered already.
  if (!remote || reply.number <= remote->answered.load()) return;
  remote->reply = {reply.before, reply.closed != 0};
  remote->answered.store(reply.number, std::memory_order_release);
  local_.ring();
}

}  // namespace weft::p2p
