// A server's side of a bulk-synchronous table: its region of the parameters, and the round that
// updates it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pslib/bsp/norm_exchange.hpp"
#include "pslib/optimizer/updater.hpp"
#include "pslib/table/checkpoints.hpp"
#include "pslib/table/description.hpp"
#include "pslib/table/initial_parameters.hpp"
#include "pslib/table/table_shard.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Round n reads version n of every worker's gradients in place and publishes version n of the
/// region. Round 1 takes the first worker's values as the parameters. Not thread-safe.
class BspShard final : public TableShard {
 public:
  /// Exposes the region. `table` must outlive the shard. Throws Error as World::expose does.
  BspShard(World& world, const Description& table);
  /// Attaches to every worker's gradients and, if the rule needs norms, to the other shards' sums.
  /// A wait ends when one of `needs` has ended.
  void attach(World& world, std::span<const int> needs, Deadline deadline);

  std::uint64_t rounds() const noexcept { return rounds_; }
  /// Runs one whole round. After an error, the next call resumes where this one stopped.
  Status round(Deadline deadline) noexcept;

  // The steps of a round, for a caller that waits in its own order.
  std::size_t workers() const noexcept override { return workers_.size(); }
  PublishedReader& gradients(std::size_t worker) noexcept override {
    return workers_[worker].gradients;
  }
  std::size_t peers() const noexcept override { return norms_.peers(); }
  PublishedReader* peer(std::size_t peer) noexcept override { return &norms_.slot(peer); }
  Status take(std::size_t worker, Deadline deadline) noexcept override;
  Status take_peer(std::size_t peer, Deadline deadline) noexcept override;
  /// Once all gradients are in, publishes this shard's sums; once the peers' sums are in too,
  /// updates and publishes the region and releases the gradients.
  Status advance() noexcept override;
  bool needs_all() const noexcept override { return taken_ > 0; }
  bool is_late(std::size_t worker) const noexcept override {
    return taken_ > 0 && !workers_[worker].arrival;
  }
  bool survives(int) const noexcept override { return false; }
  Status drop(std::size_t) noexcept override { return {}; }
  std::uint64_t version() const noexcept override {
    return table_.first_version() + (rounds_ > 0 ? rounds_ - 1 : 0);
  }
  TableStatistics statistics() const override;
  ShardLoad load() const noexcept override;

 private:
  struct BspWorker {
    PublishedReader gradients;
    Arrival arrival;  // declared after the slot: must be destroyed first; empty until taken
  };
  Status measure() noexcept;
  void update() noexcept;
  Status start() noexcept;
  Status save() noexcept;
  Sources sources(const Run& run) noexcept;
  float* master() noexcept;
  void narrow(const Run& run) noexcept;

  const Description& table_;
  PublishedSlot region_;
  Tensor buffer_;              // buffer of the region
  std::vector<float> master_;  // fp32 parameters, if the region holds 16-bit ones
  const PushCut cut_;
  std::vector<BspWorker> workers_;
  InitialParameters initial_;
  std::vector<Run> runs_;
  std::vector<Source> sources_;  // scratch: a run's gradients, one per worker
  Updater updater_;
  NormExchange norms_;
  std::unique_ptr<Checkpointer> checkpointer_;  // null: not saved
  std::uint64_t rounds_ = 0;
  std::size_t taken_ = 0;
  bool is_begun_ = false;      // all gradients are in; the update has begun
  bool awaits_norms_ = false;  // waiting for the other shards' sums
};

}  // namespace weft::pslib
