// Connects this rank to all others: chooses the fabric for each and waits until the deadline.
#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "base/os/descriptor_limit.hpp"
#include "base/os/host_identity.hpp"
#include "base/os/system_error.hpp"
#include "p2p/mesh/mesh.hpp"

namespace weft::p2p {
namespace {

constexpr const char* kNotBuilt = "not in this version";

}  // namespace

Mesh::Mesh(LocalRank& local, const MakeFabrics& make_fabrics, OnMessage on_message, OnGone on_gone)
    : local_(local),
      on_message_(std::move(on_message)),
      on_gone_(std::move(on_gone)),
      fabrics_(make_fabrics(local, *this)) {
  if (sodium_init() < 0)
    throw Error(ErrorDetail{
        .code = Code::system, .operation = "join", .message = "libsodium found no randomness"});
  const os::HostIdentity host = os::host_identity();
  own_.host_id = host.id;
  std::strncpy(own_.host.data(), host.name.c_str(), own_.host.size() - 1);
  own_.cpus = os::affinity();
  own_.pid = ::getpid();
  own_.uid = ::getuid();
  if (local_.rank == 0) randombytes_buf(own_.job_secret.data(), own_.job_secret.size());
}

Mesh::~Mesh() {
  for (const auto& fabric : fabrics_) fabric->drain();
}

RankAddress Mesh::address() {
  for (const auto& fabric : fabrics_) fabric->listen(own_);
  return own_;
}

Reach Mesh::reach(const Fabric& fabric, const RankAddress& address) const {
  if (local_.allows(fabric.kind())) return fabric.reaches(own_, address);
  return {false, local_.only_fabric_text()};
}

std::vector<Mesh::Verdict> Mesh::verdicts(const RankAddress& address) const {
  std::vector<Verdict> verdicts;
  for (const auto& fabric : fabrics_) {
    Reach reach = this->reach(*fabric, address);
    verdicts.push_back({fabric->kind(), reach.possible, std::move(reach.reason)});
  }
  for (const FabricKind kind : {FabricKind::verbs, FabricKind::tcp})
    if (std::ranges::find(verdicts, kind, &Verdict::fabric) == verdicts.end())
      verdicts.push_back({kind, false, kNotBuilt});
  std::stable_partition(verdicts.begin(), verdicts.end(),
                        [](const Verdict& v) { return v.usable; });
  return verdicts;
}

std::optional<std::string> Mesh::why_no_rdma(int rank) const {
  const auto all = verdicts(peer(rank).address);
  const auto rdma = std::ranges::find(all, FabricKind::verbs, &Verdict::fabric);
  if (rdma->usable) return std::nullopt;
  return rdma->reason;
}

std::string Mesh::text(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name(verdict.fabric), verdict.reason);
  return text;
}

std::unique_ptr<Peer> Mesh::meet(int rank, const RankAddress& address) {
  if (address.magic != RankAddress::kMagic || address.version != RankAddress::kVersion)
    throw_error(Code::bootstrap, "join",
                fmt::format("rank {} uses version {} of the protocol, this rank {}", rank,
                            address.version, RankAddress::kVersion),
                "start every rank with the same weft");
  auto peer = std::make_unique<Peer>();
  peer->rank = rank;
  peer->address = address;
  peer->address.host.back() = '\0';
  peer->shown = &local_.stats->path(rank);
  peer->shown->pid = address.pid;
  peer->shown->host.set(peer->host());
  for (const auto& fabric : fabrics_) {
    if (!reach(*fabric, peer->address).possible) continue;
    peer->fabric = fabric.get();
    return peer;
  }
  throw_error(
      Code::unreachable, "join",
      fmt::format("rank {} (host {}) can't be reached: {}", rank, peer->host(),
                  text(verdicts(peer->address))),
      "is there a network between the hosts (WEFT_IFACE names it), or are they containers of "
      "one host?");
}

void Mesh::connect(std::vector<RankAddress> addresses, Deadline deadline) {
  std::vector<std::unique_ptr<Peer>> peers;
  int sharers = 0;
  int local_ranks = 0;
  for (const RankAddress& address : addresses) {
    peers.push_back(meet(static_cast<int>(peers.size()), address));
    if (address.host_id != own_.host_id) continue;
    ++local_ranks;
    if (os::overlap(address.cpus, own_.cpus)) ++sharers;
  }
  local_.settle_waiting(sharers, local_ranks);
  joining_.store(local_.size);
  const auto began = Clock::now();
  local_.progress.run([&] {
    peers_ = std::move(peers);
    for (const auto& fabric : fabrics_) fabric->open(addresses);
    for (const auto& p : peers_) p->fabric->connect(p->rank);
  });
  const auto met = [this] { return joining_.load(std::memory_order_acquire) == 0; };
  const auto failed = [this] { return first_failed_.load() >= 0 || join_failed_.load(); };
  stats::WaitDetailsRoom room;
  // Anew at each sleep: most ranks, this one among them, come within milliseconds.
  const auto about = [&] {
    stats::WaitDetails& late = room.make();
    stats::WaitAbout about{.operation = stats::Operation::join, .details = &late};
    for (const auto& p : peers_) {
      if (p->state.load() != PeerState::joining) continue;
      if (about.peer < 0)
        about.peer = p->rank;
      else if (!late.await(static_cast<std::uint64_t>(p->rank)))
        ++about.more;
    }
    return about;
  };
  const WaitEnd end = local_.waiter.wait(met, failed, deadline, about);
  if (join_failed_.load()) throw Error(join_error_);
  // A peer that could not be accepted looks late or dead, whatever it does.
  if (end != WaitEnd::ready && os::lacked_descriptors(began))
    throw_error(Code::exhausted, "join", "no descriptor was left here for other ranks' connections",
                os::hint_for(EMFILE));
  for (const auto& p : peers_) {
    const Status status = peer_status(p->rank);
    if (!status.ok() && status.code() != Code::peer_left) {
      ErrorDetail detail = status.detail();
      detail.operation = "join";
      throw Error(detail);
    }
    if (end == WaitEnd::ready || p->state.load() != PeerState::joining) continue;
    // When a peer left because another rank failed, this rank hears of the leave before the failure
    // or instead of it.
    const bool is_late = end == WaitEnd::timeout;
    throw Error(ErrorDetail{
        .code = is_late ? Code::timeout : Code::peer_failed,
        .operation = "join",
        .message = fmt::format("rank {} (host {}, pid {}) {}", p->rank, p->host(), p->address.pid,
                               is_late ? "did not connect" : "had not connected when others left"),
        .hint = is_late ? "is it stopped? WEFT_INIT_TIMEOUT sets how long joining waits"
                        : likely_cause(),
        .rank = local_.rank,
        .peer = p->rank,
        .host = p->host()});
  }
  tell_cost(Clock::now() - began);
  tell_fallback();
  for (const auto& p : peers_) {
    const Reach taken = reach(*p->fabric, p->address);
    local_.log->info(Subsystem::path, "rank {} (host {}, pid {}): {}: {}", p->rank, p->host(),
                     p->address.pid, name(p->fabric->kind()), taken.reason);
  }
}

void Mesh::tell_fallback() const {
  const auto is_tcp = [](const auto& p) { return p->fabric->kind() == FabricKind::tcp; };
  const auto first = std::find_if(peers_.begin(), peers_.end(), is_tcp);
  if (first == peers_.end() || local_.only_fabric) return;
  const auto why = why_no_rdma((*first)->rank);
  const std::string line = fmt::format(
      "{} ranks of other hosts are reached over TCP, not by RDMA; rank {} (host {}): {}",
      std::count_if(peers_.begin(), peers_.end(), is_tcp), (*first)->rank, (*first)->host(),
      why.value_or("it is usable"));
  // A user with an RDMA device expects the device to be used.
  const auto rdma = std::ranges::find(fabrics_, FabricKind::verbs,
                                      [](const auto& fabric) { return fabric->kind(); });
  if (rdma != fabrics_.end() && (*rdma)->is_equipped())
    local_.log->warn(Subsystem::path, "{}", line);
  else
    local_.log->info(Subsystem::path, "{}", line);
}

void Mesh::tell_cost(std::chrono::nanoseconds took) const {
  if (local_.rank != 0) return;
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  const int idle = static_cast<int>(idle_.load());
  const int met = local_.size - idle;
  local_.log->info(Subsystem::path,
                   "connected to {} ranks in {:.1f} ms, {:.3f} ms each; {} connect on first use",
                   met, milliseconds(took), milliseconds(took / std::max(met, 1)), idle);
  for (const auto& fabric : fabrics_) {
    const auto reached = std::count_if(peers_.begin(), peers_.end(),
                                       [&](const auto& p) { return p->fabric == fabric.get(); });
    const PeerCost cost = fabric->peer_cost();
    if (reached == 0 || cost.completions == 0) continue;
    local_.log->info(
        Subsystem::path,
        "{}: each of {} ranks uses {} bytes of registered memory, about {} bytes of queues and "
        "{} completion queue entries",
        name(fabric->kind()), reached, cost.registered_bytes, cost.queue_bytes, cost.completions);
  }
}

void Mesh::connected(int rank, std::unique_ptr<Channel> channel) {
  Peer& peer = this->peer(rank);
  peer.channel = std::move(channel);
  if (peer.channel->capabilities().tails_up_to.load() != 0) has_tails_.store(true);
  if (peer.state.load() != PeerState::joining) return;
  peer.shown->fabric.set(name(peer.channel->fabric()));
  peer.shown->state.store(stats::PathState::connected);
  local_.recorder.control(stats::Event::connected, rank);
  peer.state.store(PeerState::connected, std::memory_order_release);
  joining_.fetch_sub(1, std::memory_order_acq_rel);
  local_.ring();
}

void Mesh::reachable(int rank, std::unique_ptr<Channel> channel) {
  Peer& peer = this->peer(rank);
  peer.idle = true;
  idle_.fetch_add(1, std::memory_order_release);
  connected(rank, std::move(channel));
  peer.shown->state.store(stats::PathState::idle);
}

void Mesh::no_longer_idle(Peer& peer) noexcept {
  if (!std::exchange(peer.idle, false)) return;
  idle_.fetch_sub(1, std::memory_order_release);
}

void Mesh::in_use(int rank) {
  Peer& peer = this->peer(rank);
  if (!peer.idle) return;
  no_longer_idle(peer);
  peer.shown->state.store(stats::PathState::connected);
  local_.log->debug(Subsystem::path, "rank {} (host {}): connecting on first use", rank,
                    peer.host());
  if (leaving_) send_close(peer);
}

Status Mesh::ended_in_order(const Peer& peer, const std::string& how) const {
  if (has_left_.load(std::memory_order_acquire))
    return Status(ErrorDetail{.code = Code::closed,
                              .message = "this rank has left the job (World::leave)",
                              .hint = "make every call that needs other ranks before leave()",
                              .rank = local_.rank});
  return Status(ErrorDetail{.code = Code::peer_left,
                            .message = fmt::format("rank {} (host {}, pid {}) {}", peer.rank,
                                                   peer.host(), peer.address.pid, how),
                            .hint = "it ended earlier than this rank expected",
                            .rank = local_.rank,
                            .peer = peer.rank,
                            .host = peer.host()});
}

void Mesh::short_of(const Error& error) {
  local_.log->error(Subsystem::path, "{}", error.what());
  if (join_failed_.load()) return;
  join_error_ = error.status();
  join_failed_.store(true);
  local_.ring();
}

}  // namespace weft::p2p
