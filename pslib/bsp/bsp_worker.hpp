// A worker's side of a bulk-synchronous table: its gradients, its parameters, and the shards'
// regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/table/description.hpp"
#include "pslib/table/push_slot.hpp"
#include "pslib/table/table_worker.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Version n of the gradients (version 1 is the initial parameters) leads to version n + 1 of every
/// region (version 1 only announces the region's memory); no worker goes on before. Not
/// thread-safe.
class BspWorker final : public TableWorker {
 public:
  /// `table` and `slot` must outlive the worker.
  BspWorker(const Description& table, PushSlot& slot);
  /// Attaches to every server's region.
  void attach(World& world, Deadline deadline);

  bool has_parameters() const noexcept override { return updated_ > 0; }
  std::uint64_t pushed() const noexcept override { return pushed_; }
  std::uint64_t version() const noexcept override {
    return table_.first_version() + (updated_ > 0 ? updated_ - 1 : 0);
  }
  Pulled pulled() const override;

  Status push_initial(Deadline deadline) noexcept override;
  Status push(Deadline deadline) noexcept override;
  Status pull(Deadline deadline) noexcept override;
  /// Waits for the update without a copy of the parameters. After an error, the next call resumes
  /// where this one stopped.
  Status wait_updated(Deadline deadline) noexcept;
  /// The piece in place, without a copy.
  Result<std::span<const std::byte>> view(const ShardPiece& piece) const noexcept;

 private:
  struct Server {
    int rank = 0;
    PublishedReader slot;
    Arrival viewed;  // declared after its slot: must be destroyed first; empty unless waited for
    std::vector<SlotRun> runs;
  };

  Status publish(Deadline deadline) noexcept;
  Status check_pushed(const char* operation) const noexcept;
  Status reach_pushed(Deadline deadline) noexcept;

  const Description& table_;
  PushSlot& slot_;
  std::vector<Server> servers_;
  std::uint64_t pushed_ = 0;      // version of the gradients published last; 0: none
  std::uint64_t updated_ = 0;     // version of the gradients that all regions include
  std::size_t servers_done_ = 0;  // for the update being pulled or waited for
};

}  // namespace weft::pslib
