// This rank's own state, which every part of p2p uses.
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
#include "p2p/memory/arena.hpp"
#include "p2p/progress/doorbell.hpp"
#include "p2p/progress/progress.hpp"
#include "p2p/progress/waiter.hpp"
#include "p2p/transport/auth/rejected_connections.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/liveness.hpp"
#include "p2p/transport/local_rank_options.hpp"
#include "p2p/transport/rank_memory.hpp"
#include "p2p/transport/rank_settings.hpp"
#include "p2p/transport/reading.hpp"

namespace weft::p2p::cuda {
class Gpus;
}

namespace weft::p2p {

/// Settings, memory, doorbell and progress of one rank. Lives as long as its mesh and slots.
/// Progress is started by the owner, once everything that it serves is in place.
class LocalRank : public RankSettings, public RankMemory {
 public:
  explicit LocalRank(LocalRankOptions options);

  const int rank;
  const int size;
  const std::shared_ptr<Log> log;
  const std::shared_ptr<SegmentMapper> mapper;
  const std::shared_ptr<stats::StatsSegment> stats;  ///< what other processes see of this rank
  stats::Recorder recorder;                          ///< any thread
  stats::PinnedPeerStats pinned_peer_stats;          ///< of other ranks of the host

  Strays strays;  ///< gets that were given up, and may be written by a NIC yet

  RejectedConnections rejected_connections;  ///< noted by the progress thread

  Liveness* liveness = nullptr;  ///< set before progress starts; null: no one judges
  cuda::Gpus* gpus = nullptr;    ///< set before slots are made; null: the rank has none

  Doorbell& bell() noexcept { return *reinterpret_cast<Doorbell*>(bell_block_.data()); }
  const Block& bell_block() const noexcept { return bell_block_.block(); }
  /// Written by a ringer when the bell is armed. Not there if ranks take turns on one thread.
  const os::Fd& bell_event() const noexcept { return bell_event_; }
  /// How to wait, now that the host's other ranks are known: `sharers` of them (this one included)
  /// may run on this rank's processors, `local_ranks` share the host's quota.
  void settle_waiting(int sharers, int local_ranks) noexcept;

  /// Whether calls of this rank's handles are over: the world has gone or left, or this process is
  /// a fork of the rank's, and so no rank. Nothing shared may be touched then.
  bool over() const noexcept {
    return takes_part_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == 0;
  }
  /// The error of every call then.
  Status refusal(const char* operation, std::string_view slot = {}) const noexcept;
  /// Whether this process is a fork of the rank's.
  bool forked() const noexcept { return mapper->fork_mark().forked(); }
  /// The world goes or has left. No other thread is in a call of its handles.
  void end_calls() noexcept;

  /// A put has no credit: the progress thread polls for it unless a thread waits here.
  void want_service() noexcept {
    service_wanted.store(true, std::memory_order_release);
    progress.turn_soon();
  }
  std::atomic<bool> service_wanted{false};

  /// Wakes this rank's own waiting threads, and its progress thread if that sleeps. They see all
  /// that the caller stored before: the call, or else falling asleep, has the barrier that the
  /// doorbell needs. Any thread.
  void ring() noexcept {
    if (!ring_needs_fence_.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the sleeper brings the barrier
      if (!bell().wanted()) [[likely]]
        return;
    }
    ring_with_fence();
  }

  /// Writes the rank's recording to WEFT_RECORD_DIR, or that of `of`, whose stats segment is held
  /// here. Nothing happens where no folder was given. Any thread; takes a millisecond or so.
  void write_recording(std::string_view why, int of = -1) noexcept;

 private:
  void ring_with_fence() noexcept;

  stats::Waits waits_;
  const std::optional<std::chrono::nanoseconds> spin_;  ///< WEFT_SPIN; none: decided by itself
  /// The mapper's fork mark; a word that is 0 once the calls have ended.
  std::atomic<const std::atomic<std::uint32_t>*> takes_part_;
  OwnedBlock bell_block_;
  os::Fd bell_event_;
  std::atomic<bool> ring_needs_fence_{true};  ///< or those who fall asleep have the barrier

 public:
  Waiter waiter;
  Progress& progress;
};

}  // namespace weft::p2p
