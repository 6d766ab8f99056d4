// The state of a World. Its members must be destroyed in reverse order of their declaration.
#pragma once

#include <memory>
#include <string>

#include "base/config.hpp"
#include "base/handle.hpp"
#include "base/log.hpp"
#include "base/os/fd.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/message/message_state.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/rendezvous/rendezvous_table.hpp"
#include "p2p/signal/signal_table.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/collective/collective_table.hpp"
#include "runtime/health/health.hpp"
#include "runtime/health/membership.hpp"
#include "runtime/health/process_end.hpp"
#include "runtime/world/services.hpp"
#include "weft/world.hpp"

namespace weft::p2p::verbs {
class Verbs;
}

namespace weft {

/// The parts that a world is made of. The first two are required. The others, if given, replace the
/// rank's own progress thread and the fabrics of this build.
struct WorldParts {
  std::unique_ptr<Bootstrap> bootstrap;
  std::shared_ptr<p2p::SegmentMapper> mapper;
  p2p::Progress* progress = nullptr;  ///< must outlive the world
  p2p::Sleeper* sleeper = nullptr;    ///< must outlive the world
  p2p::MakeFabrics fabrics = {};
  std::shared_ptr<p2p::verbs::Verbs> verbs = nullptr;  ///< replaces the machine's library
};

namespace detail {

/// Lives as long as the World, and longer if handles outlive it: their states refer to its parts.
/// From end() on it only waits for the last of them.
class WorldState : public std::enable_shared_from_this<WorldState> {
 public:
  WorldState(const Config& config, WorldParts parts);
  ~WorldState();
  WorldState(const WorldState&) = delete;
  WorldState& operator=(const WorldState&) = delete;

  /// The World goes: leaves immediately, without waiting for the other ranks, unless it has left,
  /// and ends all work. Nothing is done in a fork of the rank's process, nor a second time.
  void end() noexcept;
  Status leave(Deadline deadline) noexcept;
  bool over() const noexcept { return local.over(); }
  Status refusal(const char* operation) const noexcept { return local.refusal(operation); }
  /// Throws Error(forked) in a fork of the rank's process.
  void refuse_fork(const char* operation) const {
    if (local.forked()) local.refusal(operation).or_throw();
  }
  /// A pointer for a handle: with the state, it keeps this world's state, which it refers to.
  template <typename State>
  std::shared_ptr<State> hold(std::shared_ptr<State> state) {
    struct Held {
      std::shared_ptr<WorldState> world;
      std::shared_ptr<State> state;  ///< goes first
    };
    State* const first = state.get();
    const auto held = std::make_shared<Held>(Held{shared_from_this(), std::move(state)});
    return std::shared_ptr<State>(held, first);
  }
  int event_fd();
  void clear_event() noexcept;

 private:
  std::unique_ptr<Bootstrap> bootstrap_;  ///< destroyed last, because the launcher is told last
  os::Fd launcher_;
  os::Fd user_event_;
  std::unique_ptr<p2p::ProgressThread> thread_;  ///< null if WorldParts::progress is given
  std::atomic<bool> user_event_wanted_{false};
  bool user_event_due_ = false;  ///< belongs to the progress thread

 public:
  const int rank;
  const int size;
  const int local_size;
  const ServerSettings server_settings;  ///< for pslib
  const std::shared_ptr<Log> log;
  p2p::LocalRank local;
  p2p::cuda::Gpus gpus;
  std::atomic<std::size_t> next_any{0};  ///< index of the handle that wait_any() polls first
  p2p::Mesh mesh;
  p2p::SlotTable slots;
  p2p::RendezvousTable rendezvous;
  MessageState messages;
  p2p::SignalTable signals;
  CollectiveTable collectives;
  const std::shared_ptr<Membership> membership;
  Health health;

 private:
  /// The fabrics of this build, the best first. All of them need `thread_`.
  p2p::MakeFabrics own_fabrics(const Config& config, std::shared_ptr<p2p::verbs::Verbs> verbs);
  void join(const std::vector<std::string>& warnings, Deadline deadline);
  void warn(const std::vector<std::string>& warnings) const;
  /// Enforces WEFT_REQUIRE: throws Error(unreachable) if a path is worse than required.
  void check_required(const Config& config) const;
  /// Reads WEFT_COLL, WEFT_COLL_COSTS and WEFT_NUMA. If all ranks have the same bad value, only
  /// rank 0 reports it in time.
  void read_choices(const Config& config);
  void watch_launcher();
  void watch_bell();
  void before_sleep();
  void announce_leave();
  void on_gone(p2p::Peer& peer);
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);

  void watch_end(bool signals);
  void on_exit(int status);
  void on_signal(int signal);

  enum class Phase : std::uint8_t { joined, announced, ended };
  Phase phase_ = Phase::joined;  ///< announced: this rank has said that it leaves
  std::string failure_seen_;  ///< the first failure; belongs to the progress thread while that runs
  std::unique_ptr<ProcessEnd> process_end_;
};

}  // namespace detail

/// Makes worlds for ways of joining that are not public, and gives access to a world's state.
struct WorldAccess {
  static World make(const Config& config, WorldParts parts);
  /// The state of a world that is not empty.
  static detail::WorldState& state(const World& world) noexcept { return *world.state_; }
  /// The same for a call on any world. Throws Error: bad_argument (it is empty), forked, closed.
  static detail::WorldState& usable(const World& world, const char* operation) {
    require_usable(world.state_, "World", operation);
    return *world.state_;
  }
  /// A second handle of a world, whose end ends nothing: for objects that may outlive the world and
  /// call it. Throws Error as usable().
  static World keep(const World& world, const char* operation) {
    return World(usable(world, operation).shared_from_this());
  }
  static Result<std::size_t> wait_any(World& world, const detail::AwaitedEnds& ends,
                                      Deadline deadline) noexcept {
    return world.wait_any(ends, deadline);
  }
};

}  // namespace weft
