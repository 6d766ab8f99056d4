#include "p2p/mesh/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "base/formatted.hpp"
#include "p2p/mesh/mesh_messages.hpp"

namespace weft::p2p {
namespace {

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text;
}

/// Any thread.
bool is_idle(const Peer& peer) noexcept {
  return peer.shown->state.load(std::memory_order_acquire) == stats::PathState::idle;
}

std::string how_it_failed(const Peer& peer) {
  if (!peer.gone()) return "has failed";  // known only from another rank's report
  if (peer.state.load() == PeerState::left)
    return "has left the job" + (peer.ending.empty() ? "" : " by " + peer.ending);
  if (!peer.declared_dead.empty()) return fmt::format("was declared dead: {}", peer.declared_dead);
  if (!peer.ending.empty()) return "was ended by " + peer.ending;
  if (peer.disconnect_status.ok())
    return "died without leaving" +
           (peer.condition.empty() ? "" : ", and was " + peer.condition + " then");
  const ErrorDetail& why = peer.disconnect_status.detail();
  return fmt::format(
      "{}: {}", why.code == Code::peer_failed ? "is considered dead" : "can't be reached any more",
      why.message);
}

const char* where_to_look(const Peer& failed) {
  return failed.declared_dead.empty() && failed.condition.empty()
             ? "look at the end of that rank's output"
             : "find out why it stopped: SIGSTOP, a debugger, its host, the network; "
               "WEFT_DEAD_AFTER sets how long that is tolerated";
}

}  // namespace

void Mesh::announce_leave(bool gpu_works) {
  local_.recorder.control(stats::Event::leaving, -1, 0,
                          static_cast<std::uint64_t>(std::int64_t{first_failed_.load()}));
  local_.progress.post([this, gpu_works] {
    leaving_ = true;
    gpu_works_ = gpu_works;
    // Also to peers that have left already: they wait for this message.
    for (const auto& peer : peers_)
      if (!peer->idle) send_close(*peer);
  });
}

void Mesh::send_close(Peer& peer) {
  if (peer.rank != local_.rank && peer.channel)
    peer.channel->send(
        as_bytes(LeavingMessage{.cause = cause(), .gpu_works = gpu_works_ ? 1U : 0U}));
}

Cause Mesh::cause() const noexcept {
  if (const int failed = first_failed_.load(); failed >= 0) return {.rank = failed};
  return {.rank = first_exited_.load(), .exit_status = first_exit_status_};
}

void Mesh::announce_end(int signal, int status) {
  // From now on the ends of other ranks are logged as debug only: they are expected.
  ending_ = true;
  for (const auto& peer : peers_)
    if (!peer->idle && peer->rank != local_.rank)
      send(*peer, EndingMessage{.cause = cause(), .signal = signal, .status = status});
}

/// `cause` as reported by a peer, or an empty one if its rank is out of range.
Cause Mesh::known(const Cause& cause) const noexcept {
  return cause.rank >= 0 && cause.rank < local_.size ? cause : Cause{};
}

void Mesh::on_ending(Peer& peer, std::span<const std::byte> bytes) {
  const auto ending = parse<EndingMessage>(bytes);
  if (!ending) return;
  peer.exits = ending->signal == 0;
  const char* const name = ::sigabbrev_np(ending->signal);
  peer.ending = peer.exits ? fmt::format("exit({})", ending->status)
                           : fmt::format("SIG{}", name == nullptr ? "?" : name);
  if (peer.exits) peer.exit_status = ending->status;
  peer.end_cause = known(ending->cause);
}

Status Mesh::wait_until_alone(Deadline deadline) noexcept {
  // Read `gone` before `idle_`: a peer that connects and leaves in between is then counted at most
  // once.
  const auto alone = [this] {
    const std::uint32_t gone = gone_count();
    return gone + idle_.load(std::memory_order_acquire) + 1 >=
           static_cast<std::uint32_t>(local_.size);
  };
  const WaitEnd end = local_.waiter.wait(
      alone, [] { return false; }, deadline,
      [this] {
        const auto late = std::ranges::find_if(peers_, [this](const auto& peer) {
          return peer->rank != local_.rank && !peer->gone() && !is_idle(*peer);
        });
        return stats::WaitAbout{.operation = stats::Operation::leave,
                                .peer = late == peers_.end() ? -1 : (*late)->rank};
      });
  has_left_.store(true, std::memory_order_release);
  if (end == WaitEnd::ready) return {};
  return refuse(Code::timeout, [&] {
    std::vector<int> late;
    for (const auto& peer : peers_)
      if (peer->rank != local_.rank && !peer->gone() && !is_idle(*peer)) late.push_back(peer->rank);
    return ErrorDetail{
        .operation = "leave",
        .message = fmt::format("still in the job: rank {}{}", ranks_text(late),
                               late.empty() ? "" : suspicion(late.front())),
        .hint = "a rank leaves by World::leave or by ending; look at what that rank is doing",
        .rank = local_.rank,
        .peer = late.empty() ? -1 : late.front()};
  });
}

void Mesh::check_ranks(std::span<const int> ranks, const char* operation) const {
  for (const int rank : ranks)
    if (rank < 0 || rank >= local_.size)
      throw Error(ErrorDetail{
          .code = Code::bad_argument,
          .operation = operation,
          .message = fmt::format("there is no rank {} in a job of {}", rank, local_.size),
          .hint = fmt::format("ranks go from 0 to {}", local_.size - 1)});
}

Status Mesh::peer_status(int rank) const noexcept {
  const PeerState state = peer(rank).state.load(std::memory_order_acquire);
  if (state < PeerState::left) return {};
  return described(state == PeerState::failed ? Code::peer_failed : Code::peer_left, local_.rank,
                   rank, [&] { return describe_end(peer(rank), state); });
}

Status Mesh::describe_end(const Peer& p, PeerState state) const {
  const int rank = p.rank;
  const bool failed = state == PeerState::failed;
  const bool own = p.cause < 0;
  const Peer& culprit = own ? p : peer(p.cause);
  if (!failed && own) return ended_in_order(p, how_it_failed(p));
  const bool knows_more = culprit.gone();
  const bool exited = knows_more ? culprit.state.load() == PeerState::left : p.cause_exit >= 0;
  const ErrorDetail why = exited || !knows_more || culprit.disconnect_status.ok()
                              ? ErrorDetail{.code = exited ? Code::peer_left : Code::peer_failed}
                              : culprit.disconnect_status.detail();
  // The failure is this rank's own: it was fenced or is partitioned.
  if (why.code == Code::fenced || why.code == Code::partitioned) return culprit.disconnect_status;
  const std::string how = exited && !knows_more
                              ? fmt::format("has left the job by exit({})", p.cause_exit)
                              : how_it_failed(culprit);
  const std::string about = fmt::format("rank {} (host {}, pid {}) {}", culprit.rank,
                                        culprit.host(), culprit.address.pid, how);
  // A rank that failed is reported as failed, whatever caused it.
  if (failed && !own)
    return Status(
        ErrorDetail{.code = Code::peer_failed,
                    .message = fmt::format("rank {} (host {}, pid {}) {}, because {}", rank,
                                           p.host(), p.address.pid, how_it_failed(p), about),
                    .hint = fmt::format("look at the end of rank {}'s output", culprit.rank),
                    .rank = local_.rank,
                    .peer = rank,
                    .host = p.host()});
  return Status(
      ErrorDetail{.code = why.code,
                  .message = about + (own ? "" : fmt::format("; rank {} left because of it", rank)),
                  .hint = why.hint.empty() ? where_to_look(culprit) : why.hint,
                  .rank = local_.rank,
                  .peer = culprit.rank,
                  .host = culprit.host()});
}

std::string Mesh::likely_cause() const noexcept {
  int rank = first_failed_.load();
  if (rank < 0) rank = first_exited_.load();
  const Status why = rank < 0 ? Status{} : peer_status(rank);
  return why.ok() ? "" : formatted("perhaps because {}", why.detail().message);
}

Status Mesh::disconnected(int rank, const Status& why, Deadline deadline) const noexcept {
  if (why.code() != Code::peer_failed && why.code() != Code::peer_left &&
      why.code() != Code::path_failed)
    return why;
  constexpr std::chrono::seconds kUntilKnown{1};
  const auto latest = Clock::now() + kUntilKnown;
  const Deadline until = Deadline::at(std::min(deadline.resolve(kUntilKnown).when(), latest));
  if (!until.passed())
    (void)local_.waiter.wait([&] { return peer(rank).gone(); }, [] { return false; }, until);
  const Status known = peer_status(rank);
  if (known.ok()) return why;
  return described(known.code(), local_.rank, rank, [&] {
    return altered(known, [&](ErrorDetail& detail) { detail.operation = why.detail().operation; });
  });
}

Status Mesh::first_failure() const noexcept {
  const int failed = first_failed_.load();
  return failed < 0 ? Status{} : peer_status(failed);
}

Status Mesh::peer_status(std::span<const int> ranks, Needed needed) const noexcept {
  if (gone_count() == 0) return {};
  // A failure explains why others left; among equals, the first that is gone explains the others.
  const Peer* culprit = nullptr;
  const auto precedes = [](const Peer& a, const Peer& b) {
    const bool failed = a.state.load() == PeerState::failed || a.cause >= 0;
    const bool other = b.state.load() == PeerState::failed || b.cause >= 0;
    return failed != other ? failed : a.gone_order < b.gone_order;
  };
  const auto counts = [needed](const Peer& p) {
    return p.gone() && (needed == Needed::always || !p.left_in_order());
  };
  for (const int rank : ranks) {
    const Peer& p = peer(rank);
    if (counts(p) && (culprit == nullptr || precedes(p, *culprit))) culprit = &p;
  }
  return culprit == nullptr ? Status{} : peer_status(culprit->rank);
}

std::vector<PathReport> Mesh::paths() const {
  std::vector<PathReport> paths;
  for (const auto& peer : peers_) {
    PathReport path;
    path.peer = peer->rank;
    path.host = peer->host();
    path.pid = peer->address.pid;
    path.fabric = name(peer->fabric->kind());
    for (Verdict& v : verdicts(peer->address))
      path.verdicts.push_back({std::string(name(v.fabric)), v.usable, std::move(v.reason)});
    if (is_idle(*peer)) path.verdicts.front().reason += "; connects on first use";
    path.counters.control_messages = peer->shown->counters.control_messages.get();
    path.counters.registrations = peer->shown->counters.registrations.get();
    path.rails_lost = peer->shown->counters.rails_lost.get();
    path.rails_back = peer->shown->counters.rails_back.get();
    path.rails = peer->known_rails();
    path.health = static_cast<PeerHealth>(peer->shown->health.load(std::memory_order_acquire));
    if (path.health != PeerHealth::alive) path.condition = peer->shown->condition.get();
    paths.push_back(std::move(path));
  }
  return paths;
}

std::string Mesh::suspicion(int rank) const noexcept {
  const stats::PathEntry& shown = *peer(rank).shown;
  if (shown.health.load(std::memory_order_acquire) == 0) return {};
  return text_or_empty([&] { return fmt::format(" (it is {})", shown.condition.get()); });
}

void Mesh::message(int rank, std::span<const std::byte> bytes) {
  MessageType type{};
  if (bytes.size() < sizeof type) return;
  std::memcpy(&type, bytes.data(), sizeof type);
  Peer& peer = this->peer(rank);
  if (peer.gone()) return;
  if (type == MessageType::ending) return on_ending(peer, bytes);
  if (type != MessageType::leaving) return on_message_(peer, bytes);
  const auto leaving = parse<LeavingMessage>(bytes);
  if (!leaving) return;
  if (leaving->gpu_works != 0) quarantine(rank, true);
  peer.silent.store(true);
  peer.ended = true;
  end(peer, PeerState::left, known(leaving->cause));
  release(peer);
}

void Mesh::end(Peer& peer, PeerState state, const Cause& cause_of_end) {
  if (peer.gone()) return;
  if (peer.state.load() == PeerState::joining) joining_.fetch_sub(1, std::memory_order_acq_rel);
  peer.keep_rails();
  no_longer_idle(peer);
  peer.cause = cause_of_end.rank;
  peer.cause_exit = cause_of_end.exit_status;
  if (state == PeerState::failed) peer.condition = peer.shown->condition.get();
  peer.gone_order = gone_.load(std::memory_order_relaxed) + 1;
  // Before the state changes: a thread whose wait ends because of it finds the record.
  const bool failed = state == PeerState::failed;
  peer.shown->state.store(failed ? stats::PathState::failed : stats::PathState::left);
  peer.shown->condition.set("");
  peer.shown->health.store(
      static_cast<std::uint32_t>(failed ? PeerHealth::dead : PeerHealth::alive));
  local_.recorder.control(failed ? stats::Event::peer_failed : stats::Event::peer_left, peer.rank,
                          0, static_cast<std::uint64_t>(std::int64_t{cause_of_end.rank}));
  peer.state.store(state, std::memory_order_release);
  note_cause(peer);  // after the state: a thread that sees the failure finds its peer failed
  gone_.fetch_add(1, std::memory_order_release);
  if (failed && (ending_ || excluded_))
    local_.log->debug(Subsystem::path, "rank {} {}", peer.rank, how_it_failed(peer));
  else if (failed)
    local_.log->error(Subsystem::path, "rank {} (host {}, pid {}) {}", peer.rank, peer.host(),
                      peer.address.pid, how_it_failed(peer));
  else
    local_.log->debug(Subsystem::path, "rank {} left", peer.rank);
  if (local_.liveness != nullptr) local_.liveness->peer_status_known(peer.rank);
  local_.ring();
}

void Mesh::settle(std::span<const int> ranks) {
  for (const int rank : ranks) peer(rank).settled = true;
  first_failed_.store(-1);
  first_exited_.store(-1);
  std::vector<const Peer*> gone;
  for (const auto& peer : peers_)
    if (peer->gone()) gone.push_back(peer.get());
  std::ranges::sort(gone, {}, &Peer::gone_order);
  for (const Peer* const peer : gone) note_cause(*peer);
}

void Mesh::note_cause(const Peer& peer) noexcept {
  int none = -1;
  const bool of_itself = peer.cause < 0;
  const int status = of_itself ? peer.exit_status : peer.cause_exit;
  const int rank = of_itself ? peer.rank : peer.cause;
  const bool failed = of_itself ? peer.state.load() == PeerState::failed : status < 0;
  if (this->peer(rank).settled) return;
  if (failed) {
    first_failed_.compare_exchange_strong(none, rank);
  } else if (status > 0 && first_exited_.load() < 0) {
    first_exit_status_ = status;
    first_exited_.store(rank);
  }
}

}  // namespace weft::p2p
