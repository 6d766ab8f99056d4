// One server's view of the workers' gradients of an asynchronous table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pslib/table/description.hpp"
#include "pslib/table/initial_parameters.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Holds each worker's last taken push until it is released: the part that this server's shards are
/// made of, or all of it where the worker's memory can be loaded from. Not thread-safe.
class Gradients {
 public:
  /// `homes`: of all shards that this server may come to hold. hold() precedes the first push.
  Gradients(const Description& table, std::vector<int> homes)
      : table_(table), homes_(std::move(homes)), workers_(table.roles.workers.size()) {}
  void attach(World& world, Deadline deadline);
  /// Pushes that are taken from now on are read for the shards of `homes`. A push that is held
  /// keeps the part that was read.
  void hold(std::vector<int> homes);

  std::size_t size() const noexcept { return workers_.size(); }
  PublishedReader& slot(std::size_t worker) noexcept { return workers_[worker].slot; }

  /// Waits for a worker's next push. mismatch: the push has an impossible sequence number.
  Status take(std::size_t worker, Deadline deadline) noexcept;
  void release(std::size_t worker) noexcept;
  /// Makes the next take() return the last push again; until then one that is held stays. The
  /// worker still has the push while any server is not done with it.
  void take_again(std::size_t worker) noexcept;
  /// Marks the worker as gone. A push held here can still be read.
  void drop(std::size_t worker) noexcept { workers_[worker].is_gone = true; }

  bool is_gone(std::size_t worker) const noexcept { return workers_[worker].is_gone; }
  /// Sequence number of the last push taken.
  std::uint64_t taken(std::size_t worker) const noexcept { return workers_[worker].taken; }
  /// True if that push is held.
  bool has(std::size_t worker) const noexcept {
    return static_cast<bool>(workers_[worker].arrival);
  }
  /// True if the part of the shard of `home` can be read in it.
  bool has(std::size_t worker, int home) const noexcept;
  /// True if push `sequence`, or that part of it, may still come.
  bool is_to_come(std::size_t worker, std::uint64_t sequence) const noexcept;
  /// A piece of one of the shards that the push was read for.
  Source source(std::size_t worker, std::size_t tensor, std::int64_t first) const noexcept {
    const Worker& from = workers_[worker];
    return from.part->cut.source(from.arrival.tensor(), tensor, first);
  }
  /// The same of the initial parameters, while the first worker's first push can be read.
  const std::byte* initial(std::size_t tensor, std::int64_t first) const noexcept {
    return initial_.has() ? initial_.data(table_.layout.offset(tensor) + first)
                          : source(0, tensor, first).at;
  }
  /// The version that the gradients were computed from, read when they were taken.
  std::uint64_t base(std::size_t worker) const noexcept { return workers_[worker].base; }

 private:
  struct Part {
    std::vector<int> homes;
    PushCut cut;
  };
  struct Worker {
    PublishedReader slot;
    Arrival arrival;                   // declared after the slot: must be destroyed first
    std::shared_ptr<const Part> part;  // that `arrival` was read for
    std::uint64_t taken = 0;
    std::uint64_t base = 0;
    bool is_gone = false;
    bool is_due_again = false;
  };

  const Description& table_;
  const std::vector<int> homes_;
  std::shared_ptr<const Part> part_;  // to read of the next push
  std::vector<Worker> workers_;
  InitialParameters initial_;
};

}  // namespace weft::pslib
