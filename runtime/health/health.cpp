#include "runtime/health/health.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/os/process_state.hpp"

namespace weft::detail {
namespace {

using std::chrono::nanoseconds;

/// Number of periods after a standstill in which the standstill explains a death: a stopped process
/// that is killed runs for a moment first.
constexpr int kRemembered = 10;
/// Number of running ranks of this host that each rank watches. Two, because one may hang itself.
constexpr int kLookedAt = 2;

/// Tells the receiver to watch `rank`, a rank of this host that the sender has found stopped.
struct SuspicionMessage {
  static constexpr p2p::MessageType kType = p2p::MessageType::suspicion;
  p2p::MessageType type = kType;
  std::int32_t rank = -1;
};

std::string seconds(nanoseconds span) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(span).count());
}

}  // namespace

Health::Health(const Config& config, p2p::LocalRank& local, p2p::Mesh& mesh, Membership& membership)
    : local_(local),
      mesh_(mesh),
      membership_(membership),
      patience_(config.time(Setting::dead_after)),
      silence_(static_cast<std::size_t>(local.size), PeerHealth::alive),
      given_up_by_(static_cast<std::size_t>(local.size)) {
  local_.liveness = this;
}

Health::~Health() { local_.liveness = nullptr; }

void Health::watch_host(p2p::ProgressThread& progress) {
  const p2p::RankAddress& own = mesh_.peer(local_.rank).address;
  for (int i = 1; i < local_.size; ++i) {
    const int rank = (local_.rank + i) % local_.size;
    const p2p::RankAddress& address = mesh_.peer(rank).address;
    // A rank that is a thread of this process stops with it.
    if (address.host_id == own.host_id && address.pid != own.pid)
      neighbours_.push_back({.rank = rank});
  }
  if (neighbours_.empty()) return;
  timer_ = std::make_unique<p2p::Timer>(progress, patience_.period(),
                                        [this](std::uint64_t expired) { look(expired); });
  timer_->start();
}

void Health::look(std::uint64_t expired) {
  if (Patience::was_stopped_itself(expired)) {
    // The others may have been stopped as well, and continue in a moment.
    for (Neighbour& neighbour : neighbours_) neighbour.periods = 0;
    return;
  }
  std::erase_if(neighbours_, [this](const Neighbour& n) { return mesh_.peer(n.rank).gone(); });
  int running = 0;
  for (Neighbour& neighbour : neighbours_)
    if ((running < kLookedAt || neighbour.remembered > 0) && look_at(neighbour)) ++running;
  if (neighbours_.empty()) timer_->stop();
}

bool Health::look_at(Neighbour& neighbour) {
  const int rank = neighbour.rank;
  const os::ProcessState state = os::process_state(mesh_.peer(rank).address.pid);
  const bool traced = state == os::ProcessState::traced;
  if (state != os::ProcessState::stopped) neighbour.periods = 0;
  neighbour.stands_still = traced || state == os::ProcessState::stopped;
  if (!traced && state != os::ProcessState::stopped) {
    if (--neighbour.remembered <= 0) neighbour.was.clear();
    // A silent one is shown by is_dead().
    if (silence_[static_cast<std::size_t>(rank)] == PeerHealth::alive)
      show(rank, PeerHealth::alive, neighbour.was);
    return true;
  }
  if (neighbour.remembered <= 0) tell_others_of(rank);
  neighbour.remembered = kRemembered;
  if (traced) {
    show(rank, PeerHealth::suspect, "held by a debugger");
    return false;
  }
  // A process that ran since the last check was continued and stopped again.
  const std::uint64_t ran = os::time_run(mesh_.peer(rank).address.pid);
  if (std::exchange(neighbour.ran, ran) != ran) neighbour.periods = 0;
  const nanoseconds standstill = patience_.period() * ++neighbour.periods;
  neighbour.was = "stopped for " + seconds(standstill);
  show(rank, PeerHealth::suspect, neighbour.was);
  if (patience_.of_stopped(standstill) == PeerHealth::dead)
    mesh_.give_up(
        rank, fmt::format("its process was stopped for {} (WEFT_DEAD_AFTER)", seconds(standstill)));
  return false;
}

void Health::tell_others_of(int rank) {
  for (const Neighbour& other : neighbours_)
    if (other.rank != rank && !mesh_.peer(other.rank).idle)
      mesh_.send(mesh_.peer(other.rank), SuspicionMessage{.rank = rank});
}

void Health::on_message(std::span<const std::byte> bytes) {
  const auto suspicion = p2p::parse<SuspicionMessage>(bytes);
  if (!suspicion) return;
  for (Neighbour& neighbour : neighbours_)
    if (neighbour.rank == suspicion->rank) neighbour.remembered = kRemembered;
}

bool Health::is_dead(int rank, nanoseconds silence) {
  const PeerHealth health = patience_.of_silent(silence);
  if (health == PeerHealth::dead) return true;
  silence_[static_cast<std::size_t>(rank)] = health;
  // The kernel knows why a process of this host is silent: what it says stays.
  const auto stands_still = [rank](const Neighbour& n) { return n.rank == rank && n.stands_still; };
  if (std::ranges::any_of(neighbours_, stands_still)) return false;
  show(rank, health, health == PeerHealth::alive ? "" : "silent for " + seconds(silence));
  return false;
}

void Health::show(int rank, PeerHealth health, const std::string& condition) {
  stats::PathEntry& shown = *mesh_.peer(rank).shown;
  const auto before = static_cast<PeerHealth>(shown.health.load(std::memory_order_relaxed));
  // The condition stays for a while as the explanation of a failure that may follow. Only together
  // with another state than alive does it describe the present.
  if (health != PeerHealth::alive || !condition.empty() || !shown.condition.get().empty())
    shown.condition.set(condition);
  if (health == before) return;
  shown.health.store(static_cast<std::uint32_t>(health), std::memory_order_release);
  const p2p::Peer& peer = mesh_.peer(rank);
  if (health > before)
    local_.log->warn(Subsystem::path, "rank {} (host {}, pid {}) is {}: {}", rank, peer.host(),
                     peer.address.pid, name(health), condition);
  else
    local_.log->info(Subsystem::path, "rank {} (host {}, pid {}) is {} again", rank, peer.host(),
                     peer.address.pid, name(health));
}

void Health::saw_end(int rank) { mesh_.peer(rank).ended = true; }

void Health::given_up_by(int rank, const std::string& why) {
  const p2p::Peer& peer = mesh_.peer(rank);
  given_up_by_[static_cast<std::size_t>(rank)] = true;
  const Status status(
      ErrorDetail{.code = Code::fenced,
                  .operation = "path",
                  .message = fmt::format("rank {} (host {}, pid {}) has given this rank up: {}",
                                         rank, peer.host(), peer.address.pid, why),
                  .hint = "that rank's output has its reason; if it heard nothing for "
                          "WEFT_DEAD_AFTER: was this process stopped, or its network cut?",
                  .rank = local_.rank,
                  .peer = rank,
                  .host = peer.host()});
  mesh_.fail(rank, status);
  // A single rank may be the one that is cut off.
  if (membership_.is_outnumbered_by(given_up_by_)) mesh_.exclude(status);
}

void Health::peer_status_known(int rank) { membership_.peer_status_known(rank); }

}  // namespace weft::detail
