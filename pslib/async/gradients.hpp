// The workers' gradients of an asynchronous table as one of its servers sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pslib/table/description.hpp"
#include "pslib/table/initial_parameters.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Of each worker the last push that was taken, until it is let go.
/// Thread-safety: one thread at a time.
class Gradients {
 public:
  explicit Gradients(const Description& table)
      : table_(table), workers_(table.roles.workers.size()) {}
  void attach(World& world, Deadline deadline);

  std::size_t size() const noexcept { return workers_.size(); }
  PublishedReader& slot(std::size_t worker) noexcept { return workers_[worker].slot; }

  /// Waits for a worker's next push. mismatch: no worker numbers its pushes so.
  Status take(std::size_t worker, Deadline deadline) noexcept;
  void release(std::size_t worker) noexcept;
  /// What was let go is needed after all: the next take() has it again. A worker whose push is not
  /// done with everywhere still has it.
  void take_again(std::size_t worker) noexcept;
  /// Nothing more will come from it. What is here can still be read.
  void drop(std::size_t worker) noexcept { workers_[worker].is_gone = true; }

  bool is_gone(std::size_t worker) const noexcept { return workers_[worker].is_gone; }
  /// The sequence number of the last push that was taken.
  std::uint64_t taken(std::size_t worker) const noexcept { return workers_[worker].taken; }
  /// Whether that can be read.
  bool has(std::size_t worker) const noexcept {
    return static_cast<bool>(workers_[worker].arrival);
  }
  const std::byte* data(std::size_t worker) const noexcept {
    return workers_[worker].arrival.tensor().data();
  }
  /// The initial parameters, while the first push of the first worker can be read.
  const std::byte* initial() const noexcept { return initial_.has() ? initial_.data() : data(0); }
  /// The version that they were computed from, as it stood when they were taken.
  std::uint64_t base(std::size_t worker) const noexcept { return workers_[worker].base; }

 private:
  struct Worker {
    PublishedReader slot;
    Arrival arrival;  // below the slot, as it must go first
    std::uint64_t taken = 0;
    std::uint64_t base = 0;
    bool is_gone = false;
  };

  const Description& table_;
  std::vector<Worker> workers_;
  InitialParameters initial_;
};

}  // namespace weft::pslib
