// A server's side of a table: its region of the parameters, and the round that updates it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pslib/layout.hpp"
#include "pslib/optimizer.hpp"
#include "pslib/roles.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Round n reads version n of every worker's gradients where they lie and publishes version n of
/// the region. Round 1 takes the first worker's values as the parameters. Thread-safety: one thread
/// at a time.
class Shard {
 public:
  /// Exposes the region. Throws Error as World::expose does.
  Shard(World& world, const std::string& slot, const Roles& roles, const Layout& layout,
        std::span<const Piece> pieces, const Optimizer& optimizer);
  /// Attaches to every worker's gradients; `needs` are the ranks without which a wait ends.
  void attach(World& world, const Roles& roles, const SlotSpec& gradients,
              std::span<const int> needs, Deadline deadline);

  std::uint64_t rounds() const noexcept { return rounds_; }
  /// One whole round. After an error the next call goes on where this one stopped.
  Status round(Deadline deadline) noexcept;

  // The steps of a round, for a caller that waits in its own order.
  std::size_t workers() const noexcept { return workers_.size(); }
  RemoteSlot& gradients(std::size_t worker) noexcept { return workers_[worker].gradients; }
  /// How many workers' gradients of this round have been taken.
  std::size_t taken() const noexcept { return taken_; }
  /// Waits for a worker's gradients of this round.
  Status take(std::size_t worker, Deadline deadline) noexcept;
  /// With all of them taken: updates the region, lets the gradients go and publishes.
  Status finish() noexcept;

 private:
  struct Worker {
    RemoteSlot gradients;
    Arrival arrival;  // below the slot, as it must go first; empty until taken
  };
  struct Run {
    std::int64_t from;  // in a worker's gradients
    std::int64_t to;    // in the region
    std::int64_t count;
  };

  void start_from(const float* initial, float* region) const noexcept;
  void update(float* region) noexcept;

  Slot region_;
  std::vector<Worker> workers_;
  std::vector<Run> runs_;
  std::vector<const float*> sources_;  // room for a run's gradients, worker by worker
  Updater updater_;
  std::uint64_t rounds_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace weft::pslib
