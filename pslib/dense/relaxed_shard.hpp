// A server's side of a table whose workers need not be in step: bounded staleness, asynchronous, or
// the first k of them.
#pragma once

#include <cstdint>
#include <vector>

#include "pslib/dense/description.hpp"
#include "pslib/dense/table_shard.hpp"
#include "pslib/optimizer/updater.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Every update goes into another buffer of the region than the last, so readers are never waited
/// for unless they hold all but that one; then the state is published: version, permit, and what of
/// each worker is done with.
/// Thread-safety: one thread at a time.
class RelaxedShard final : public TableShard {
 public:
  /// Throws Error as World::expose does. `table` must outlive the shard.
  RelaxedShard(World& world, const Description& table);
  void attach(World& world, Deadline deadline);

  std::size_t workers() const noexcept override { return workers_.size(); }
  RemoteSlot& gradients(std::size_t worker) noexcept override { return workers_[worker].gradients; }
  Status take(std::size_t worker, Deadline deadline) noexcept override;
  Status advance() noexcept override;
  bool needs_all() const noexcept override { return false; }
  bool survives(int) const noexcept override { return true; }
  Status drop(std::size_t worker) noexcept override;
  std::uint64_t version() const noexcept override { return version_; }
  TableStatistics statistics() const override { return statistics_; }

 private:
  struct Worker {
    RemoteSlot gradients;
    Arrival arrival;          // below the slot, as it must go first; empty unless it waits here
    std::uint64_t taken = 0;  // the last push seen
    std::uint64_t done = 0;   // the last push applied, folded in or dropped
    bool is_gone = false;
  };
  struct Part {
    Run run;
    std::int64_t from;  // in a worker's gradients
  };

  std::size_t quorum() const noexcept;
  bool is_late(const Worker& worker) const noexcept;
  std::uint64_t base_of(const Worker& worker) const noexcept;
  std::uint64_t permit() const noexcept;
  void gather() noexcept;
  void count_staleness() noexcept;
  Status update() noexcept;
  void start(std::byte* region) noexcept;
  Sources sources(const Part& part) noexcept;
  Status publish_region(const Tensor& buffer) noexcept;
  Status publish_state() noexcept;

  const Description& table_;
  Slot region_;
  Slot state_;
  std::int64_t header_;        // elements of words in front of the region's parameters
  Tensor newest_;              // the region's buffer of the last version
  std::vector<float> master_;  // the parameters, where the region holds 16-bit ones
  std::vector<Worker> workers_;
  std::vector<Part> parts_;
  std::vector<std::size_t> contributors_;  // of the update that is being made, in their order
  std::vector<const std::byte*> sources_;
  Updater updater_;
  std::uint64_t version_ = 0;
  bool has_parameters_ = false;
  TableStatistics statistics_;
};

}  // namespace weft::pslib
