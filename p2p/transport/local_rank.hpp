// This rank's own things, which every part of p2p uses.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/os/fd.hpp"
#include "base/stats/pinned_peer_stats.hpp"
#include "base/stats/recorder.hpp"
#include "base/stats/stats_segment.hpp"
#include "base/stats/waits.hpp"
#include "p2p/memory/adopted_memory.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/memory/arena_resource.hpp"
#include "p2p/progress/doorbell.hpp"
#include "p2p/progress/progress.hpp"
#include "p2p/progress/waiter.hpp"
#include "p2p/transport/auth/rejected_connections.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/liveness.hpp"
#include "p2p/transport/reading.hpp"
#include "topology/placement/rank_placement.hpp"

namespace weft::p2p {

struct LocalRankOptions {
  int rank = 0;
  int size = 1;
  Config config;
  std::shared_ptr<Log> log;
  std::shared_ptr<SegmentMapper> mapper;  ///< shared by ranks of one process
  Progress* progress = nullptr;           ///< must outlive the rank
  Sleeper* sleeper = nullptr;             ///< where ranks take turns on one thread
  /// With a sleeper: arenas grow by so much memory, which other processes can't map.
  std::size_t private_chunk = 64u << 10;
  topology::RankPlacement placement = {};  ///< its NIC, and where its memory had best lie
  std::string job = {};                    ///< as the launcher names it
  bool alone_on_host = false;              ///< no other rank can hold its stats segment
};

/// Arenas, doorbell, progress and policy of one rank. Lives as long as its mesh and slots.
/// Progress is started by the owner, once everything that it serves is in place.
class LocalRank {
 public:
  explicit LocalRank(LocalRankOptions options);

  const int rank;
  const int size;
  const std::shared_ptr<Log> log;
  const std::shared_ptr<SegmentMapper> mapper;
  const std::shared_ptr<stats::StatsSegment> stats;  ///< what other processes see of this rank
  stats::Recorder recorder;                          ///< any thread
  stats::PinnedPeerStats pinned_peer_stats;          ///< of other ranks of the host
  const std::string record_dir;                      ///< WEFT_RECORD_DIR; empty: no recordings
  const std::optional<FabricKind> only_fabric;       ///< WEFT_FABRIC; none: any
  const bool cross_memory;  ///< WEFT_CROSS_MEMORY: the kernel may copy from process to process
  const bool check_flow;    ///< synchronous slots run with credits, an overrun is reported
  const topology::RankPlacement placement;  ///< the fabrics' choice of a port, and the arenas' node

  const std::shared_ptr<Arena> control;
  const std::shared_ptr<Arena> data;
  const std::shared_ptr<Arena> published;
  const std::shared_ptr<Arena> staging;
  const std::shared_ptr<AdoptedMemory> adopted;

  /// Whether WEFT_FABRIC lets ranks be reached by this fabric.
  bool allows(FabricKind fabric) const noexcept { return !only_fabric || only_fabric == fabric; }
  /// The setting, for the verdict on another fabric.
  std::string only_fabric_text() const {
    return "WEFT_FABRIC=" + std::string(only_fabric ? name(*only_fabric) : "auto");
  }

  ArenaResource resource;  ///< the data arena's

  Strays strays;  ///< gets that were given up, and may be written by a NIC yet

  RejectedConnections rejected_connections;  ///< noted by the progress thread

  Liveness* liveness = nullptr;  ///< set before progress starts; null: nobody judges

  Doorbell& bell() noexcept { return *reinterpret_cast<Doorbell*>(bell_block_.data()); }
  const Block& bell_block() const noexcept { return bell_block_.block(); }
  /// Written by a ringer when the bell is armed. None where ranks take turns on one thread.
  const os::Fd& bell_event() const noexcept { return bell_event_; }
  /// How to wait, now that the host's other ranks are known: `sharers` of them (this one included)
  /// may run on this rank's processors, `local_ranks` share the host's quota.
  void settle_waiting(int sharers, int local_ranks) noexcept;

  /// Whether this process is a fork of the rank's, and so no rank: nothing shared may be touched.
  bool forked() const noexcept { return unforked_.load(std::memory_order_relaxed) == 0; }
  /// What every call answers then.
  Status fork_refusal(const char* operation, std::string_view slot = {}) const noexcept;

  /// A put has no credit: unless somebody waits for it here, the progress thread will see to it.
  void want_service() noexcept {
    service_wanted.store(true, std::memory_order_release);
    progress.turn_soon();
  }
  std::atomic<bool> service_wanted{false};

  /// Wakes this rank's own waiting threads.
  void ring() noexcept;

  const std::shared_ptr<Arena>& arena_of(std::uint32_t chunk) const noexcept;
  /// Where peers find the tensor's bytes; nullopt for memory that is not theirs to reach.
  std::optional<MemoryRef> locate(const Tensor& tensor) const noexcept;
  /// Whether the number names memory of this rank that peers may know: what travelled is not
  /// trusted.
  bool has_chunk(std::uint32_t chunk) const noexcept;
  /// Whether the range lies in one of the arenas, all of which the fabrics know.
  bool reachable(const std::byte* data, std::size_t bytes) const noexcept;

  /// Writes the rank's recording to WEFT_RECORD_DIR, or that of `of`, whose stats segment is held
  /// here. Nothing happens where no folder was given. Any thread; takes a millisecond or so.
  void write_recording(std::string_view why, int of = -1) noexcept;

 private:
  stats::Waits waits_;
  const std::optional<std::chrono::nanoseconds> spin_;  ///< WEFT_SPIN; none: decided by itself
  const std::atomic<std::uint32_t>& unforked_;          ///< the mapper's fork mark
  OwnedBlock bell_block_;
  os::Fd bell_event_;

 public:
  Waiter waiter;
  Progress& progress;
};

}  // namespace weft::p2p
