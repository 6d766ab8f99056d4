// A server's side of an asynchronous table: bounded staleness, fully asynchronous, k-of-n, or any
// replicated table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pslib/async/async_shard.hpp"
#include "pslib/async/gradients.hpp"
#include "pslib/replication/replica.hpp"
#include "pslib/replication/replica_sets.hpp"
#include "pslib/table/table_shard.hpp"

namespace weft::pslib {

/// The shards that this server holds, as primary or backup. A primary publishes what it has
/// committed: the version, the permit, and each worker's last push that is done with. Not
/// thread-safe.
class AsyncServer final : public TableShard {
 public:
  /// Throws Error as World::expose does. `table` must outlive the server.
  AsyncServer(World& world, const Description& table);
  void attach(Deadline deadline);

  std::size_t workers() const noexcept override { return gradients_.size(); }
  PublishedReader& gradients(std::size_t worker) noexcept override {
    return gradients_.slot(worker);
  }
  std::size_t peers() const noexcept override { return peers_.size(); }
  PublishedReader* peer(std::size_t peer) noexcept override { return &peers_[peer].words; }
  Status take(std::size_t worker, Deadline deadline) noexcept override {
    return gradients_.take(worker, deadline);
  }
  Status take_peer(std::size_t peer, Deadline deadline) noexcept override;
  Status advance() noexcept override;
  Deadline advance_at() const noexcept override;
  bool needs_all() const noexcept override;
  /// Always true: a step that can't be made without a dead worker ends the table only when the step
  /// begins, because a worker that left after its last step may look dead.
  bool survives(int) const noexcept override { return true; }
  Status drop(std::size_t worker) noexcept override;
  bool is_outdated(const Group& group) const noexcept override;
  Status enter(const Group& group) noexcept override;
  std::uint64_t version() const noexcept override;
  TableStatistics statistics() const override;
  ShardLoad load() const noexcept override;

 private:
  // A primary's snapshots. One of a later epoch is kept until this server enters that epoch.
  struct Offer {
    PublishedReader slot;
    Arrival arrival{};  // declared after its slot: must be destroyed first
  };
  struct Held {
    Held(std::size_t shard, std::size_t self) : shard(shard), replica(self) {}
    std::size_t shard;
    Replica replica;
    std::unique_ptr<AsyncShard> state;           // set once the shard is held
    std::unique_ptr<Checkpointer> checkpointer;  // null: not saved
    std::uint64_t saved = 0;                     // version last considered for saving
    std::optional<PublishedSlot> offer;          // exposed at its first use
    std::map<std::size_t, Offer> offers;         // by server; attached at first use
    std::vector<std::uint64_t> acknowledged;     // StateWords; empty: not the primary
    std::uint64_t told = 0;                      // revision of the replica last published
    Deadline lost_at{};                          // when to give up on a shard without a holder
  };
  struct Peer {
    std::size_t server;
    PublishedReader words;
  };

  int home_of(const Held& held) const noexcept { return table_.homes[held.shard]; }
  void hold(std::uint64_t epoch, bool starts);
  void make(Held& held);
  /// True if there may be more to do.
  Result<bool> step(Held& held);
  bool order(Held& held, Status& status);
  bool follow(Held& held, Status& status);
  Status commit(Held& held);
  Status save(Held& held) noexcept;
  void acknowledge(Held& held);
  Status offer(Held& held);
  Result<bool> fetch(Held& held);
  Status look_for_offer(const Held& held, Offer& offer);
  bool is_ending() const noexcept;
  Status lose(Held& held) const;
  Status lost(const Held& held) const;
  void release() noexcept;
  void take_again() noexcept;
  Status tell() noexcept;
  Status publish_state() noexcept;

  World& world_;
  const Description& table_;
  const std::size_t self_;  // this server's index
  Gradients gradients_;
  PublishedSlot words_;  // this server's messages on all shards; unused without replicas
  PublishedSlot state_;
  std::vector<Peer> peers_;
  ReplicaSets replica_sets_;
  std::vector<Held> held_;  // every shard that this server may hold
};

}  // namespace weft::pslib
