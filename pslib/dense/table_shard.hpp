// A server's side of a table, as the loop of a rank that only serves sees it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pslib/dense/norm_exchange.hpp"
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
  virtual RemoteSlot& gradients(std::size_t worker) noexcept = 0;
  /// Null for a table whose rule never goes by norms over several shards.
  virtual NormExchange* norms() noexcept { return nullptr; }

  /// Waits for what a worker sends next.
  virtual Status take(std::size_t worker, Deadline deadline) noexcept = 0;
  /// Waits for another shard's norms of this round.
  virtual Status take_norms(std::size_t /*peer*/, Deadline /*deadline*/) noexcept { return {}; }
  /// Does what can be done with what was taken.
  virtual Status advance() noexcept = 0;

  /// Whether an update is under way that can't be made without every worker.
  virtual bool needs_all() const noexcept = 0;
  /// Whether the others go on when a worker has died.
  virtual bool survives_workers() const noexcept = 0;
  /// The worker has closed the table, left or died: nothing more will come from it.
  virtual Status drop(std::size_t worker) noexcept = 0;

  /// Updates done; 0 with the initial parameters.
  virtual std::uint64_t version() const noexcept = 0;
  virtual TableStatistics statistics() const = 0;
};

}  // namespace weft::pslib
