// A server's side of a table, as seen by the loop of a rank that only serves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pslib/insight/shard_load.hpp"
#include "weft/group.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Not thread-safe.
class TableShard {
 public:
  TableShard() = default;
  TableShard(const TableShard&) = delete;
  TableShard& operator=(const TableShard&) = delete;
  virtual ~TableShard() = default;

  virtual std::size_t workers() const noexcept = 0;
  /// A worker's gradients; for a sparse table its requests.
  virtual PublishedReader& gradients(std::size_t worker) noexcept = 0;
  /// Other servers whose messages this one waits for.
  virtual std::size_t peers() const noexcept { return 0; }
  virtual PublishedReader* peer(std::size_t /*peer*/) noexcept { return nullptr; }

  /// Limits waits inside the calls below that take no deadline. Default: WEFT_TIMEOUT each.
  void wait_until(Deadline deadline) noexcept { until_ = deadline; }

  /// Waits for the worker's next message. Returns mismatch with the worker as the peer if the
  /// message is invalid: it is not used, and the caller must drop the worker.
  virtual Status take(std::size_t worker, Deadline deadline) noexcept = 0;
  /// Waits for another server's next message.
  virtual Status take_peer(std::size_t /*peer*/, Deadline /*deadline*/) noexcept { return {}; }
  /// Processes all that was taken, as far as possible.
  virtual Status advance() noexcept = 0;
  /// When to call advance() even if nothing arrives. Default: only when something arrives.
  virtual Deadline advance_at() const noexcept { return {}; }

  /// True while an update is under way that needs every worker.
  virtual bool needs_all() const noexcept = 0;
  /// True if such an update waits for this worker.
  virtual bool is_late(std::size_t /*worker*/) const noexcept { return false; }
  /// True if workers learn from the answer to their next request which rank ended such an update.
  /// If false, they learn of its end when this server closes the table.
  virtual bool tells_who_is_lost() const noexcept { return false; }
  /// True if the others can go on after `rank` has died.
  virtual bool survives(int rank) const noexcept = 0;
  /// Marks the worker as gone: it closed the table, left, died or was refused. Waits that need it
  /// end with an error.
  virtual Status drop(std::size_t worker) noexcept = 0;

  /// True if the group must be shrunk: one of this table's servers has died, or other servers are
  /// in a later epoch. Only for tables whose servers are replaced.
  virtual bool is_outdated(const Group& /*group*/) const noexcept { return false; }
  /// Continues with the servers that are left.
  virtual Status enter(const Group& /*group*/) noexcept { return {}; }

  /// Number of updates; 0 with the initial parameters.
  virtual std::uint64_t version() const noexcept = 0;
  virtual TableStatistics statistics() const = 0;
  virtual ShardLoad load() const noexcept = 0;

 protected:
  Deadline until() const noexcept { return until_; }

 private:
  Deadline until_;
};

}  // namespace weft::pslib
