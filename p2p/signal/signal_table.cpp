#include "p2p/signal/signal_table.hpp"
#include "base/fail.hpp"
#include "base/formatted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::detail {

using p2p::SignalAct;

SignalState::SignalState(p2p::SignalTable& table, std::string name, std::uint64_t id,
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

using detail::RemoteSignalState;
using detail::SignalState;
using Answer = RemoteSignalState::Answer;

namespace {

SignalLeft left(std::uint64_t signal_id) noexcept {
  SignalLeft message;
  message.signal_id = signal_id;
  return message;
}

}  // namespace

Status SignalTable::failure(Code code, const char* operation, const std::string& name, int peer,
                            std::string_view message, std::string_view hint) const noexcept {
  return refuse(code, [&] {
    return ErrorDetail{.operation = operation,
                       .message = std::string(message),
                       .hint = std::string(hint),
                       .rank = local_.rank,
                       .peer = peer,
                       .host = peer < 0 ? "" : mesh_.peer(peer).host(),
                       .slot = name};
  });
}

void SignalTable::check_name(const char* operation, const std::string& name) const {
  if (name.empty() || name.size() > kMaxSlotName || name.find('\0') != std::string::npos)
    failure(Code::bad_argument, operation, name.substr(0, 40), -1,
            fmt::format("a signal's name of {} bytes", name.size()),
            fmt::format("names are plain text of 1 to {} bytes", kMaxSlotName))
        .or_throw();
}

std::shared_ptr<SignalState> SignalTable::expose(const std::string& name, std::uint64_t value) {
  check_name("expose", name);
  std::shared_ptr<SignalState> signal;
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    if (by_name_.contains(name))
      failure(Code::duplicate_name, "expose", name, -1,
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

void SignalTable::close(std::shared_ptr<SignalState> signal) noexcept {
  signal->line().closed.store(1);
  {
    const std::lock_guard lock(mutex_);
    by_name_.erase(signal->name);
  }
  local_.progress.post([this, signal = std::move(signal)] { release(signal); });
}

void SignalTable::release(const std::shared_ptr<SignalState>& signal) {
  if (signal->line().closed.load() == 0 || !signal->known_to.empty()) return;
  const std::lock_guard lock(mutex_);
  signals_.erase(signal->id);
}

std::shared_ptr<SignalState> SignalTable::signal(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = signals_.find(id);
  return found == signals_.end() ? nullptr : found->second;
}

void SignalTable::on_left(const Peer& peer, std::uint64_t signal_id) {
  const auto signal = this->signal(signal_id);
  if (!signal) return;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(signal->known_to.begin(), signal->known_to.end(), &peer);
    if (found != signal->known_to.end()) signal->known_to.erase(found);
  }
  release(signal);
}

void SignalTable::on_gone(const Peer& peer) {
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

Result<std::uint64_t> SignalTable::wait_at_least(const SignalState& signal, std::uint64_t least,
                                                 Deadline deadline) const noexcept {
  const auto& word = signal.line().word;
  const auto value = [&word] { return word.load(std::memory_order_acquire); };
  const WaitEnd end =
      local_.waiter.wait([&] { return value() >= least; },
                         [&] { return !mesh_.peer_status(signal.needs).ok(); }, deadline);
  if (end == WaitEnd::ready) return value();
  int peer = -1;
  const Status why =
      end == WaitEnd::broken
          ? mesh_.peer_status(signal.needs)
          : failure(Code::timeout, "wait_at_least", signal.name, peer, text_or_empty([&] {
                      return fmt::format("the signal is {}, not yet {}; {}", value(), least,
                                         adders(signal, peer));
                    }),
                    "are these ranks at the same step? a longer deadline: WEFT_TIMEOUT");
  return altered(why, [&](ErrorDetail& detail) {
    detail.operation = "wait_at_least";
    detail.slot = signal.name;
    if (peer >= 0) detail.peer = peer;
    detail.sequence_expected = least;
    detail.sequence_seen = value();
  });
}

std::string SignalTable::adders(const SignalState& signal, int& peer) const {
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

std::shared_ptr<RemoteSignalState> SignalTable::attach(int owner, const std::string& name,
                                                       Deadline deadline) {
  check_name("attach", name);
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
  const auto answered = [&] {
    if (remote->answer.load(std::memory_order_acquire) == Answer::none) local_.progress.help();
    return remote->answer.load(std::memory_order_acquire) != Answer::none;
  };
  const WaitEnd end = local_.waiter.wait(
      answered, [&] { return peer.gone(); }, deadline);
  if (end == WaitEnd::ready && remote->answer.load() == Answer::granted) return remote;
  detach(remote);
  if (end == WaitEnd::broken) gone("attach", *remote).or_throw();
  if (end == WaitEnd::timeout)
    failure(Code::timeout, "attach", name, owner,
            fmt::format("rank {} (host {}) has not exposed the signal{}", owner, peer.host(),
                        mesh_.suspicion(owner)),
            "is the name the same on both ranks, and does the owner get that far?")
        .or_throw();
  failure(Code::exhausted, "attach", name, owner,
          fmt::format("rank {} (host {}) can't let this rank reach the signal", owner, peer.host()),
          "its log says why")
      .or_throw();
  return nullptr;
}

void SignalTable::detach(const std::shared_ptr<RemoteSignalState>& remote) noexcept {
  {
    const std::lock_guard lock(mutex_);
    remotes_.erase(remote->id);
  }
  // If the attach is not answered yet, on_granted() will find the remote end gone and detach it.
  if (remote->answer.load(std::memory_order_acquire) != Answer::granted) return;
  local_.progress.post([this, &owner = remote->owner, signal_id = remote->signal_id] {
    mesh_.send(owner, left(signal_id));
  });
}

Status SignalTable::gone(const char* operation, const RemoteSignalState& remote) const noexcept {
  const Status peer_status = mesh_.peer_status(remote.owner.rank);
  if (peer_status.ok()) return peer_status;
  return altered(peer_status, [&](ErrorDetail& detail) {
    detail.operation = operation;
    detail.slot = remote.name;
  });
}

Status SignalTable::add(RemoteSignalState& remote, std::uint64_t amount) noexcept {
  if (remote.owner.gone()) return gone("add", remote);
  if (SignalLine* const line = remote.direct) {
    if (line->closed.load(std::memory_order_relaxed) != 0)
      return failure(Code::closed, "add", remote.name, remote.owner.rank,
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

Result<std::uint64_t> SignalTable::act(RemoteSignalState& remote, SignalAct act,
                                       std::uint64_t operand, std::uint64_t expected,
                                       Deadline deadline) noexcept {
  const char* const operation = act == SignalAct::add ? "fetch_add" : "compare_swap";
  const auto closed = [&] {
    return failure(Code::closed, operation, remote.name, remote.owner.rank,
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
  const auto answered = [&] {
    if (remote.answered.load(std::memory_order_acquire) >= number) return true;
    local_.progress.help();
    return remote.answered.load(std::memory_order_acquire) >= number;
  };
  const WaitEnd end = local_.waiter.wait(
      answered, [&] { return remote.owner.gone(); }, deadline);
  if (end == WaitEnd::broken) return gone(operation, remote);
  if (end == WaitEnd::timeout)
    return failure(Code::timeout, operation, remote.name, remote.owner.rank,
                   formatted("rank {} (host {}) has not answered{}", remote.owner.rank,
                             remote.owner.host(), mesh_.suspicion(remote.owner.rank)),
                   "the operation may still take effect");
  if (remote.reply.closed) return closed();
  return remote.reply.before;
}

std::shared_ptr<RemoteSignalState> SignalTable::remote(const Peer& peer, std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = remotes_.find(id);
  if (found == remotes_.end() || &found->second->owner != &peer) return nullptr;
  return found->second;
}

void SignalTable::on_message(Peer& peer, std::span<const std::byte> bytes) {
  MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  if (type == MessageType::signal_wanted) {
    if (const auto message = parse<SignalWanted>(bytes)) on_wanted(peer, *message);
  } else if (type == MessageType::signal_given) {
    if (const auto message = parse<SignalGranted>(bytes)) on_granted(peer, *message);
  } else if (type == MessageType::signal_act) {
    if (const auto message = parse<SignalRequest>(bytes)) on_request(peer, *message);
  } else if (type == MessageType::signal_left) {
    if (const auto message = parse<SignalLeft>(bytes)) on_left(peer, message->signal_id);
  } else if (const auto message = parse<SignalReply>(bytes)) {
    on_reply(peer, *message);
  }
}

void SignalTable::on_wanted(Peer& peer, const SignalWanted& wanted) {
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

void SignalTable::grant(Peer& peer, std::uint64_t remote_id, SignalState& signal) {
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

void SignalTable::on_granted(Peer& peer, const SignalGranted& granted) {
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

void SignalTable::on_request(Peer& peer, const SignalRequest& request) {
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

void SignalTable::on_reply(Peer& peer, const SignalReply& reply) {
  const auto remote = this->remote(peer, reply.remote_id);
  // A late reply to an operation that was given up: a newer one has been answered already.
  if (!remote || reply.number <= remote->answered.load()) return;
  remote->reply = {reply.before, reply.closed != 0};
  remote->answered.store(reply.number, std::memory_order_release);
  local_.ring();
}

}  // namespace weft::p2p
