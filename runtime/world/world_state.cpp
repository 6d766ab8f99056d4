#include "runtime/world/world_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/fail.hpp"
#include "base/mix64.hpp"
#include "base/os/asymmetric_barrier.hpp"
#include "base/os/cpus.hpp"
#include "base/os/host_identity.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/system_error.hpp"
#include "p2p/progress/fences.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/shm/shm_fabric.hpp"
#include "p2p/transport/tcp/tcp_fabric.hpp"
#include "p2p/transport/verbs/make_fabric.hpp"
#include "runtime/collective/numa_nodes.hpp"
#include "runtime/world/check_settings.hpp"
#include "runtime/world/descriptor_need.hpp"
#include "topology/placement/place.hpp"

namespace weft::detail {
namespace {

constexpr std::chrono::seconds kOrphanGrace{2};
/// Time in which the other ranks are told that this process calls exit().
constexpr std::chrono::milliseconds kExitPatience{200};
/// Time in which the launcher ends the job after rank 0 has reported a bad setting that all ranks
/// have.
constexpr std::chrono::seconds kRankZeroFirst{5};

/// This rank's NIC and NUMA node, if the machine has a choice. A bad setting is an error; a machine
/// that cannot be described is logged.
topology::RankPlacement place(const Config& config, const Bootstrap& bootstrap, Log& log) {
  topology::RankOnHost own{.index = bootstrap.local_rank(), .count = bootstrap.local_size()};
  topology::RankPlacement placement;
  try {
    if (p2p::fabric_kind(config.text(Setting::fabric)) != p2p::FabricKind::shm) {
      own.cpus = os::numbers(os::affinity());
      placement = topology::place_rank(config, own);
    }
  } catch (const Error& error) {
    if (error.code() == Code::bad_config) throw;
    placement.notes.push_back(error.detail().message);
  }
  placement.allowed_numa = topology::nodes_for_arenas();
  if (!placement.allowed_numa.empty())
    log.info(Subsystem::arena, "arenas on NUMA nodes with processors alone: {}",
             fmt::join(placement.allowed_numa, ","));
  for (const std::string& note : placement.notes) log.info(Subsystem::path, "topology: {}", note);
  if (placement.numa >= 0)
    log.info(Subsystem::arena, "arenas on NUMA node {}, staging on {}", placement.numa,
             placement.staging);
  return placement;
}

/// 0 for none.
std::uint64_t hash_of(const std::vector<std::string>& warnings) {
  std::uint64_t hash = warnings.empty() ? 0 : kFnv1a;
  for (const std::string& warning : warnings)
    for (const char c : warning) hash = fnv1a(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

WorldState::WorldState(const Config& config, WorldParts parts)
    : bootstrap_(std::move(parts.bootstrap)),
      thread_(parts.progress == nullptr ? std::make_unique<p2p::ProgressThread>() : nullptr),
      rank(bootstrap_->rank()),
      size(bootstrap_->size()),
      local_size(bootstrap_->local_size()),
      server_settings{config.text(Setting::ps_servers),
                      static_cast<int>(*config.integer(Setting::ps_replicas))},
      log(std::make_shared<Log>(config, os::host_identity().name, rank)),
      local({.rank = rank,
             .size = size,
             .config = config,
             .log = log,
             .mapper = parts.mapper,
             .progress = thread_ ? thread_.get() : parts.progress,
             .sleeper = parts.sleeper,
             // If fabrics or a library are given, the machine's own devices are not used.
             .placement = parts.fabrics || parts.verbs ? topology::RankPlacement{}
                                                       : place(config, *bootstrap_, *log),
             .job = bootstrap_->job(),
             .alone_on_host = local_size == 1 && size > 1}),
      gpus({.setting = config.text(Setting::gpu),
            .index = bootstrap_->local_rank(),
            .pci = local.placement.gpu,
            .visible = local.placement.visible_gpus,
            .reason = local.placement.gpu_reason},
           std::move(parts.mapper), config.size(Setting::arena_chunk).value(), log),
      mesh(
          local, parts.fabrics ? parts.fabrics : own_fabrics(config, std::move(parts.verbs)),
          [this](p2p::Peer& peer, std::span<const std::byte> bytes) { on_message(peer, bytes); },
          [this](p2p::Peer& peer) { on_gone(peer); }),
      slots(local, mesh),
      rendezvous(local, mesh, slots),
      messages(local, mesh),
      signals(local, mesh),
      collectives(local, mesh, slots),
      membership(std::make_shared<Membership>(
          local, mesh,
          [this](std::span<const int> ranks, std::span<std::int64_t> words, Deadline deadline) {
            collectives.join_words(ranks, words, deadline);
          })),
      health(config, local, mesh, *membership) {
  local.gpus = &gpus;
  check_join_settings(config);
  local.progress.before_sleep([this] { before_sleep(); });
  if (thread_) {
    thread_->on_failure([this](const char* what) {
      log->error(Subsystem::boot,
                 "a background task failed: {} (operations that wait for it end at their deadline)",
                 what);
    });
    watch_bell();
    watch_launcher();
  }
  local.progress.start();
  try {
    // Before ranks meet: one that is interrupted while it joins tells those that it has met.
    if (thread_) watch_end(config.flag(Setting::sigterm));
    join(config.warnings(), Deadline::after(config.time(Setting::init_timeout).value()));
    check_required(config);
    read_choices(config);
  } catch (...) {
    mesh.announce_leave();
    local.progress.run([this] { process_end_.reset(); });
    local.progress.stop();
    throw;
  }
}

p2p::MakeFabrics WorldState::own_fabrics(const Config& config,
                                         std::shared_ptr<p2p::verbs::Verbs> verbs) {
  return [this, config, verbs = std::move(verbs)](p2p::LocalRank& rank_here,
                                                  p2p::FabricEvents& events) {
    std::vector<std::unique_ptr<p2p::Fabric>> fabrics;
    fabrics.push_back(std::make_unique<p2p::ShmFabric>(rank_here, *thread_, events));
    auto rdma = p2p::verbs::make_fabric(rank_here, *thread_, events, config, verbs);
    if (rdma) fabrics.push_back(std::move(rdma));
    fabrics.push_back(std::make_unique<p2p::tcp::TcpFabric>(
        rank_here, *thread_, events, config,
        tcp_rails_within_limit(config, {.all = size, .local = bootstrap_->local_size()})));
    return fabrics;
  };
}

void WorldState::warn(const std::vector<std::string>& warnings) const {
  for (const std::string& warning : warnings) log->warn(Subsystem::boot, "{}", warning);
}

void WorldState::join(const std::vector<std::string>& warnings, Deadline deadline) {
  p2p::RankAddress own = mesh.address();
  own.warnings = hash_of(warnings);
  bootstrap_->put(std::as_bytes(std::span(&own, 1)));
  try {
    bootstrap_->fence(deadline);
  } catch (...) {
    warn(warnings);
    throw;
  }
  local.rejected_connections.add(bootstrap_->rejected_connections());
  std::vector<p2p::RankAddress> addresses(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    const std::vector<std::byte> bytes = bootstrap_->get(r);
    auto& address = addresses[static_cast<std::size_t>(r)];
    if (bytes.size() != sizeof address)
      throw Error(ErrorDetail{.code = Code::bootstrap,
                              .operation = "join",
                              .message = fmt::format("rank {}'s address has {} bytes instead of {}",
                                                     r, bytes.size(), sizeof address),
                              .hint = "start every rank with the same weft"});
    std::memcpy(&address, bytes.data(), sizeof address);
  }
  // Most jobs have one environment: the first rank that has these warnings gives them.
  const auto is_told = [&](const p2p::RankAddress& address) {
    return address.warnings == own.warnings;
  };
  if (std::none_of(addresses.begin(), addresses.begin() + rank, is_told)) warn(warnings);
  mesh.connect(std::move(addresses), deadline);
  membership->open();
  if (thread_) local.progress.run([this] { health.watch_host(*thread_); });
  local.recorder.control(stats::Event::joined, -1, 0, static_cast<std::uint64_t>(size));
  log->info(Subsystem::boot, "joined as rank {} of {} ({} on this host) by {}", rank, size,
            local_size, bootstrap_->name());
}

void WorldState::check_required(const Config& config) const {
  const std::string& required = config.text(Setting::require);
  if (required == "none") return;
  for (int peer = 0; peer < size; ++peer) {
    const bool is_here = peer == rank;
    const p2p::FabricKind fabric = mesh.peer(peer).fabric->kind();
    const auto why_not = mesh.why_no_rdma(peer);
    // Within a host, shared memory is not a fallback, but the rank must have RDMA nevertheless.
    const bool good =
        fabric == p2p::FabricKind::verbs || (fabric == p2p::FabricKind::shm && !why_not);
    if (good) continue;
    throw Error(ErrorDetail{
        .code = Code::unreachable,
        .operation = "join",
        .message = fmt::format("WEFT_REQUIRE={}: {} is not reached by RDMA: {}", required,
                               is_here ? "this rank itself" : fmt::format("rank {}", peer),
                               why_not.value_or("")),
        .hint = "fix this, or unset WEFT_REQUIRE to take what there is",
        .rank = rank,
        .peer = peer,
        .host = mesh.peer(peer).host()});
  }
}

void WorldState::read_choices(const Config& config) {
  try {
    collectives.choose_by(config.text(Setting::coll), config.text(Setting::coll_costs));
    const std::string& numa = config.text(Setting::numa);
    // Simulated ranks share a thread, which may run on any processor.
    if (thread_ || numa != "auto") collectives.settle_in(numa_node(numa, bootstrap_->local_rank()));
  } catch (const Error&) {
    // The launcher ends the job when rank 0 fails, so that only rank 0 reports the setting.
    if (rank != 0) std::this_thread::sleep_for(kRankZeroFirst);
    throw;
  }
}

void WorldState::on_message(p2p::Peer& peer, std::span<const std::byte> bytes) {
  p2p::MessageType type{};
  std::memcpy(&type, bytes.data(), sizeof type);
  if (type == p2p::MessageType::rendezvous)
    rendezvous.on_message(peer, bytes);
  else if (type == p2p::MessageType::collective)
    collectives.on_message(peer, bytes);
  else if (MessageState::understands(type))
    messages.on_message(peer, bytes);
  else if (p2p::SignalTable::understands(type))
    signals.on_message(peer, bytes);
  else if (type == p2p::MessageType::agreement)
    membership->on_message(peer, bytes);
  else if (type == p2p::MessageType::suspicion)
    health.on_message(bytes);
  else
    slots.on_message(peer, bytes);
}

void WorldState::on_gone(p2p::Peer& peer) {
  slots.on_gone(peer);
  signals.on_gone(peer);
  collectives.on_gone(peer);
  if (peer.state.load() != p2p::PeerState::failed) return local.pinned_peer_stats.drop(peer.rank);
  const std::string why = mesh.peer_status(peer.rank).detail().message;
  local.write_recording(why, peer.rank);
  if (!failure_seen_.empty()) return;
  failure_seen_ = why;
  local.write_recording(why);
}

void WorldState::watch_launcher() {
  const int pid = bootstrap_->launcher_pid();
  if (pid == 0) return;
  try {
    launcher_ = os::pidfd_open(pid);
  } catch (const Error&) {
    return;  // the launcher is in another pid namespace, so its end is invisible here
  }
  thread_->watch(launcher_.get(), EPOLLIN, [this, pid](std::uint32_t) {
    thread_->forget(launcher_.get());
    log->error(Subsystem::boot, "the launcher (pid {}) is gone: this rank ends (SIGTERM)", pid);
    ::kill(::getpid(), SIGTERM);
    // A program that ignores SIGTERM must not run on as an orphan.
    std::thread([] {
      std::this_thread::sleep_for(kOrphanGrace);
      ::_exit(128 + SIGTERM);
    }).detach();
  });
}

void WorldState::watch_end(bool signals) {
  local.progress.run([this, signals] {
    process_end_ = std::make_unique<ProcessEnd>(
        *thread_, signals,
        ProcessEnd::Events{.exits = [this](int status) { on_exit(status); },
                           .terminated = [this](int signal) { on_signal(signal); }});
  });
}

void WorldState::on_exit(int status) {
  if (local.forked()) return;
  const auto told = std::make_shared<std::promise<void>>();
  auto is_told = told->get_future();
  local.progress.post([this, status, told] {
    mesh.announce_end(0, status);
    told->set_value();
  });
  // The wait is limited, because this may be the progress thread itself.
  is_told.wait_for(kExitPatience);
}

void WorldState::on_signal(int signal) {
  if (signal == SIGINT)  // the user knows, and would get a line from each rank
    log->info(Subsystem::boot, "SIGINT: Ctrl-C ends this rank");
  else
    log->warn(Subsystem::boot, "SIGTERM: the launcher, the batch system or a user ends this rank");
  mesh.announce_end(signal, 0);
  local.write_recording(signal == SIGINT ? "SIGINT" : "SIGTERM");
}

void WorldState::watch_bell() {
  thread_->watch(local.bell_event().get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t count = 0;
    (void)!::read(local.bell_event().get(), &count, sizeof count);
    user_event_due_ = true;
  });
}

void WorldState::before_sleep() {
  const bool user = user_event_wanted_.load();
  const bool armed = user || local.service_wanted.load() || rendezvous.wants_bell();
  local.bell().armed.store(armed ? 1 : 0, std::memory_order_seq_cst);
  // Arming counts as going to sleep: a rank that rings may rely on the sleeper's barrier.
  if (armed && local.waiter.policy().barrier_before_sleep)
    os::global_barrier();
  else
    p2p::full_barrier();
  local.waiter.poll_once();
  slots.serve_pending();
  collectives.serve();
  messages.unseen().serve();
  rendezvous.serve();
  // No bell rings when a GPU's copy has ended, and its memory may be what others wait for.
  if (p2p::cuda::reap_late_copies()) local.progress.turn_soon();
  // Checked after the bell is armed: an event after the user's last poll now rings the bell.
  if (user && local.waiter.has_silent()) {
    user_event_due_ = slots.came_silently() || user_event_due_;
    local.progress.turn_soon();
  }
  if (user && user_event_due_) {
    const std::uint64_t one = 1;
    (void)!::write(user_event_.get(), &one, sizeof one);
  }
  user_event_due_ = false;
}

int WorldState::event_fd() {
  if (user_event_wanted_.load()) return user_event_.get();
  local.progress.run([this] {
    if (user_event_.get() < 0) user_event_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    user_event_due_ =
        true;  // readable once the bell is armed, so that the user polls everything then
    if (user_event_.get() >= 0) user_event_wanted_.store(true);
  });
  if (!user_event_wanted_.load())
    throw Error(ErrorDetail{.code = Code::exhausted,
                            .operation = "event_fd",
                            .message = os::words(EMFILE),
                            .hint = os::hint_for(EMFILE)});
  return user_event_.get();
}

void WorldState::clear_event() noexcept {
  std::uint64_t count = 0;
  if (user_event_wanted_.load()) (void)!::read(user_event_.get(), &count, sizeof count);
}

}  // namespace weft::detail
