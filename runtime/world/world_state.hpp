// What a World is made of, in the order in which it must die.
#pragma once

#include <memory>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/os/fd.hpp"
#include "p2p/mesh/mesh.hpp"
#include "p2p/message/message_state.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/rendezvous/rendezvous_table.hpp"
#include "p2p/signal/signal_table.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/collective/collective_table.hpp"
#include "runtime/health/health.hpp"
#include "runtime/health/membership.hpp"
#include "runtime/health/process_end.hpp"
#include "weft/world.hpp"

namespace weft::p2p::verbs {
class Verbs;
}

namespace weft {

/// What a world is put together from. The first two are always needed; where the others are given,
/// they replace a rank's own thread and the fabrics of this build.
struct WorldParts {
  std::unique_ptr<Bootstrap> bootstrap;
  std::shared_ptr<p2p::SegmentMapper> mapper;
  p2p::Progress* progress = nullptr;  ///< must outlive the world
  p2p::Sleeper* sleeper = nullptr;    ///< must outlive the world
  p2p::MakeFabrics fabrics = {};
  std::shared_ptr<p2p::verbs::Verbs> verbs = nullptr;  ///< in place of the machine's library
};

namespace detail {

class WorldState {
 public:
  WorldState(const Config& config, WorldParts parts);
  /// Leaves at once.
  ~WorldState();
  WorldState(const WorldState&) = delete;
  WorldState& operator=(const WorldState&) = delete;

  Status leave(Deadline deadline) noexcept;
  /// Throws Error(forked) in a fork of the rank's process.
  void refuse_fork(const char* operation) const {
    if (local.forked()) local.fork_refusal(operation).or_throw();
  }
  int event_fd();
  void clear_event() noexcept;

 private:
  std::unique_ptr<Bootstrap> bootstrap_;  ///< the last to go: the launcher is told last
  os::Fd launcher_;
  os::Fd user_event_;
  std::unique_ptr<p2p::ProgressThread> thread_;  ///< null where another progress was given
  std::atomic<bool> user_event_wanted_{false};
  bool user_event_due_ = false;  // the progress thread's

 public:
  const int rank;
  const int size;
  const int local_size;
  const std::string ps_servers;  ///< WEFT_PS_SERVERS, for the room above
  const int ps_replicas;         ///< WEFT_PS_REPLICAS, likewise
  const std::shared_ptr<Log> log;
  p2p::LocalRank local;
  std::atomic<std::size_t> next_any{0};  ///< of what wait_any() waits for, the first looked at
  p2p::Mesh mesh;
  p2p::SlotTable slots;
  p2p::RendezvousTable rendezvous;
  MessageState messages;
  p2p::SignalTable signals;
  CollectiveTable collectives;
  const std::shared_ptr<Membership> membership;
  Health health;

 private:
  /// The fabrics of this build, the best first; all of them need the thread.
  p2p::MakeFabrics own_fabrics(const Config& config, std::shared_ptr<p2p::verbs::Verbs> verbs);
  void join(Deadline deadline);
  /// WEFT_REQUIRE: a lesser path is an error, not a fallback.
  void check_required(const Config& config) const;
  /// How collectives are chosen. Of ranks that all have the same bad value, one tells.
  void read_choices(const Config& config);
  void watch_launcher();
  void watch_bell();
  void before_sleep();
  void announce_leave();
  void on_gone(p2p::Peer& peer);
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);

  void watch_end(bool sigterm);
  void on_exit(int status);
  void on_sigterm();

  bool announced_ = false;
  std::string failure_seen_;  // the first; the progress thread's, while it runs
  std::unique_ptr<ProcessEnd> process_end_;
};

}  // namespace detail

/// Makes worlds for the ways of joining that are not public.
struct WorldAccess {
  static World make(const Config& config, WorldParts parts);
  static detail::WorldState& state(World& world) noexcept { return *world.state_; }
};

}  // namespace weft
