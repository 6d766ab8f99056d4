// A server's side of a table, as the loop of a rank that only serves sees it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pslib/insight/shard_load.hpp"
#include "weft/group.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Thread-safety: one thread at a time.
class TableShard {
 public:
  TableShard() = default;
  TableShard(const TableShard&) = delete;
  TableShard& operator=(const TableShard&) = delete;
  virtual ~TableShard() = default;

  virtual std::size_t workers() const noexcept = 0;
  /// Where a worker's gradients come from; of a sparse table its requests.
  virtual PublishedReader& gradients(std::size_t worker) noexcept = 0;
  /// What other servers say, which this one listens to.
  virtual std::size_t peers() const noexcept { return 0; }
  virtual PublishedReader* peer(std::size_t /*peer*/) noexcept { return nullptr; }

  /// Until when waits inside the calls below may last, besides those that take a deadline. Default:
  /// each for WEFT_TIMEOUT.
  void wait_until(Deadline deadline) noexcept { until_ = deadline; }

  /// Waits for what a worker sends next. mismatch, with the worker as the peer: it sent what no
  /// worker sends; nothing of it was used, and the worker is to be dropped.
  virtual Status take(std::size_t worker, Deadline deadline) noexcept = 0;
  /// Waits for what another server says next.
  virtual Status take_peer(std::size_t /*peer*/, Deadline /*deadline*/) noexcept { return {}; }
  /// Does what can be done with what was taken.
  virtual Status advance() noexcept = 0;
  /// When to call that even if nothing has come. Default: when something comes.
  virtual Deadline advance_at() const noexcept { return {}; }

  /// Whether an update is under way that can't be made without every worker.
  virtual bool needs_all() const noexcept = 0;
  /// Whether each worker's next request is answered with who ended such an update. If not, workers
  /// learn that it has ended by this server's closing the table.
  virtual bool tells_who_is_lost() const noexcept { return false; }
  /// Whether the others go on when this rank has died.
  virtual bool survives(int rank) const noexcept = 0;
  /// The worker has closed the table, left, died or was refused: nothing more will come from it.
  /// Who waits for it in vain is told.
  virtual Status drop(std::size_t worker) noexcept = 0;

  /// Whether what stands for the world's group is to be replaced: one of this table's servers has
  /// died, or others are further. Only tables whose servers are replaced ask for it.
  virtual bool is_outdated(const Group& /*group*/) const noexcept { return false; }
  /// The servers that are left go on.
  virtual Status enter(const Group& /*group*/) noexcept { return {}; }

  /// Updates done; 0 with the initial parameters.
  virtual std::uint64_t version() const noexcept = 0;
  virtual TableStatistics statistics() const = 0;
  virtual ShardLoad load() const noexcept = 0;

 protected:
  Deadline until() const noexcept { return until_; }

 private:
  Deadline until_;
};

}  // namespace weft::pslib
