// One server's view of the workers' gradients of an asynchronous table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pslib/table/description.hpp"
#include "pslib/table/initial_parameters.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Holds each worker's last taken push until it is released. Not thread-safe.
class Gradients {
 public:
  /// For the shards of `homes`.
  Gradients(const Description& table, std::vector<int> homes)
      : table_(table),
        homes_(std::move(homes)),
        cut_(table.cut(homes_)),
        workers_(table.roles.workers.size()) {}
  void attach(World& world, Deadline deadline);

  std::size_t size() const noexcept { return workers_.size(); }
  PublishedReader& slot(std::size_t worker) noexcept { return workers_[worker].slot; }

  /// Waits for a worker's next push. mismatch: the push has an impossible sequence number.
  Status take(std::size_t worker, Deadline deadline) noexcept;
  void release(std::size_t worker) noexcept;
  /// Makes the next take() return a released push again. The worker still has the push while any
  /// server is not done with it.
  void take_again(std::size_t worker) noexcept;
  /// Marks the worker as gone. A push held here can still be read.
  void drop(std::size_t worker) noexcept { workers_[worker].is_gone = true; }

  bool is_gone(std::size_t worker) const noexcept { return workers_[worker].is_gone; }
  /// Sequence number of the last push taken.
  std::uint64_t taken(std::size_t worker) const noexcept { return workers_[worker].taken; }
  /// True if that push can be read.
  bool has(std::size_t worker) const noexcept {
    return static_cast<bool>(workers_[worker].arrival);
  }
  /// A piece of one of the shards in that push.
  Source source(std::size_t worker, std::size_t tensor, std::int64_t first) const noexcept {
    return cut_.source(workers_[worker].arrival.tensor(), tensor, first);
  }
  /// The same of the initial parameters, while the first worker's first push can be read.
  const std::byte* initial(std::size_t tensor, std::int64_t first) const noexcept {
    return initial_.has() ? initial_.data(table_.layout.offset(tensor) + first)
                          : source(0, tensor, first).at;
  }
  /// The version that the gradients were computed from, read when they were taken.
  std::uint64_t base(std::size_t worker) const noexcept { return workers_[worker].base; }

 private:
  struct Worker {
    PublishedReader slot;
    Arrival arrival;  // declared after the slot: must be destroyed first
    std::uint64_t taken = 0;
    std::uint64_t base = 0;
    bool is_gone = false;
  };

  const Description& table_;
  const std::vector<int> homes_;
  const PushCut cut_;
  std::vector<Worker> workers_;
  InitialParameters initial_;
};

}  // namespace weft::pslib
