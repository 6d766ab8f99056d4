// A worker's side of a table whose workers need not be in step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pslib/table/description.hpp"
#include "pslib/table/push_slot.hpp"
#include "pslib/table/table_worker.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// A pull waits until every shard is done with this worker's last push and permits the pull; it
/// skips values whose version this worker has. For a replicated table, follows the server that
/// speaks in the newest epoch. Not thread-safe.
class AsyncWorker final : public TableWorker {
 public:
  /// `table` and `slot` must outlive the worker.
  AsyncWorker(World& world, const Description& table, PushSlot& slot);
  void attach(World& world, Deadline deadline);

  bool has_parameters() const noexcept override { return settled_ > 0; }
  std::uint64_t pushed() const noexcept override { return pushed_; }
  std::uint64_t version() const noexcept override { return version_; }
  Pulled pulled() const override;

  Status push_initial(Deadline deadline) noexcept override;
  Status push(Deadline deadline) noexcept override;
  Status pull(Deadline deadline) noexcept override;

 private:
  // The state words of one server.
  struct Server {
    int rank = 0;
    PublishedReader state;
    bool is_lost = false;
  };
  struct Shard {
    std::size_t leader = 0;                          // server that published `known`
    std::vector<std::uint64_t> known;                // StateWords last seen
    std::map<std::size_t, PublishedReader> regions;  // by server; attached at the first pull
    std::vector<SlotRun> runs;
    std::vector<std::byte> words;  // RegionWords of the version that this worker has
    bool has_pulled = false;
  };

  Status publish(Deadline deadline) noexcept;
  Status pull(Shard& shard, Deadline deadline);
  Status await_permit(Shard& shard, Deadline deadline);
  Status hear(const Shard& shard, Deadline deadline);
  void adopt(std::size_t server, std::span<const std::uint64_t> words);
  Status move(Shard& shard, Deadline deadline);
  Status lose(std::size_t server, Status status) noexcept;
  bool is_permitted(const Shard& shard) const noexcept;
  Status name_the_slowest(const Shard& shard, Status status) const noexcept;

  World& world_;
  const Description& table_;
  std::size_t self_;  // this worker's index
  PushSlot& slot_;
  std::vector<Server> servers_;
  std::vector<Shard> shards_;
  std::uint64_t pushed_ = 0;
  std::uint64_t settled_ = 0;  // pushes that have been pulled
  std::uint64_t version_ = 0;  // version last pulled
  std::size_t shards_done_ = 0;
};

}  // namespace weft::pslib
