// A server's side of a table: its region of the parameters, and the round that updates it.
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

/// Round n reads version n of every worker's gradients where they lie and publishes version n of
/// the region. Round 1 takes the first worker's values as the parameters. Thread-safety: one thread
/// at a time.
class BspShard final : public TableShard {
 public:
  /// Exposes the region. Throws Error as World::expose does. `table` must outlive the shard.
  BspShard(World& world, const Description& table);
  /// Attaches to every worker's gradients, and to other shards' norms if the rule goes by them;
  /// `needs` are the ranks without which a wait ends.
  void attach(World& world, std::span<const int> needs, Deadline deadline);

  std::uint64_t rounds() const noexcept { return rounds_; }
  /// One whole round. After an error the next call goes on where this one stopped.
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
  /// With all gradients, tells the norms; with these too, updates the region, lets the gradients go
  /// and publishes.
  Status advance() noexcept override;
  bool needs_all() const noexcept override { return taken_ > 0; }
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
    Arrival arrival;  // below the slot, as it must go first; empty until taken
  };
  struct Part {
    Run run;
    std::int64_t from;  // in a worker's gradients
  };

  Status measure() noexcept;
  void update() noexcept;
  Status start() noexcept;
  Status save() noexcept;
  Sources sources(const Part& part) noexcept;
  float* master() noexcept;
  void narrow(const Run& run) noexcept;

  const Description& table_;
  PublishedSlot region_;
  Tensor buffer_;              // the region
  std::vector<float> master_;  // the parameters, where the region holds 16-bit ones
  std::vector<BspWorker> workers_;
  InitialParameters initial_;
  std::vector<Part> parts_;
  std::vector<const std::byte*> sources_;  // room for a run's gradients, worker by worker
  Updater updater_;
  NormExchange norms_;
  std::unique_ptr<Checkpointer> checkpointer_;  // null: nothing is saved
  std::uint64_t rounds_ = 0;
  std::size_t taken_ = 0;
  bool is_begun_ = false;      // this round's update, all gradients being there
  bool awaits_norms_ = false;  // the other shards'
};

}  // namespace weft::pslib
