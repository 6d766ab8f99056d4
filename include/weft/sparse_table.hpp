// Sparse tables: rows of parameters under 64-bit ids, such as embeddings, spread over server
// shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/api.hpp"
#include "weft/checkpoint.hpp"
#include "weft/consistency.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/optimizer.hpp"
#include "weft/tensor.hpp"

namespace weft::pslib {

/// What a sparse table's rows are, and how they are updated. docs/pslib.md has the meaning of an
/// update.
struct SparseOptions {
  std::size_t dim = 0;  ///< f32 in a row
  /// Any rule but lars, whose ratio is over a whole tensor that no server has. A row's state is its
  /// own; what a rule counts (adam's steps, a schedule's) counts the table's updates.
  Optimizer optimizer{};
  Schedule schedule{};
  /// What gradients and looked up values are on their way between workers and servers: f32, f16 or
  /// bf16. Both are f32 for the caller in any case, as are stored rows and states. A row's gradient
  /// is rounded once, after duplicates were added up, and so is each value that is looked up: to
  /// nearest even, and to infinity where it is too large for the type.
  DType wire = DType::f32;
  Consistency consistency{};  ///< all but k_of_n
  /// A row that was never updated has values that lie evenly in [-spread, spread): a function of
  /// the seed and its id alone.
  std::uint64_t seed = 0;
  float spread = 0.01F;
  /// A row is stored, and updated, once so many requests have looked it up; gradients of others are
  /// dropped, and counted. 0: with its first update.
  std::uint32_t admit_after = 0;
  /// A row begins anew when it was neither looked up nor updated for more than so many updates. 0:
  /// never.
  std::uint64_t expire_after = 0;
  /// Different rows that one request to one server holds; a worker and a server share memory for so
  /// many gradients and as many values. A batch with more for one server goes in several requests.
  std::size_t request_rows = 4096;
  CheckpointOptions checkpoint{};
};

/// What this rank's shard of a sparse table holds and has done.
struct SparseStatistics {
  std::uint64_t rows = 0;          ///< known: stored, or counted for admission
  std::uint64_t bytes = 0;         ///< of memory, for rows, states and the index
  std::uint64_t requests = 0;      ///< of all workers
  std::uint64_t looked_up = 0;     ///< rows that were answered
  std::uint64_t updated = 0;       ///< rows that were updated, once for each update
  std::uint64_t not_admitted = 0;  ///< of gradients, dropped
};

namespace detail {
class SparseState;
}  // namespace detail

/// Rows by id. A worker looks rows up and pushes gradients for them, batch by batch; an id may
/// stand in a batch many times: it is sent once, and its gradients are added up in the batch's
/// order. Each call is one request to every server. Under bulk-synchronous training update n takes
/// all workers' n-th pushes: a row's gradients are added in rank order and divided by the number of
/// workers (one that did not push the row counts as zero); rows that nobody pushed stay as they
/// are. A worker that has pushed n times sees update n, and so must wait for the others' pushes.
/// With ssp and async a push is an update. A worker with nothing to push or to look up passes empty
/// spans, so that it stays in step.
/// Where ranks work and serve, all workers make the same calls, as a shard works inside its own
/// rank's. A table goes only when the others have what they need from its shard: World::leave()
/// before the tables' destruction waits for that.
/// Thread-safety: one thread at a time.
class WEFT_API SparseTable {
 public:
  SparseTable(SparseTable&&) noexcept;
  SparseTable& operator=(SparseTable&&) noexcept;
  ~SparseTable();

  /// Worker: the rows of `ids`, one behind the other; `rows` holds ids.size() * dim. After a
  /// timeout the same call goes on where this one stopped, and no other call is accepted. Errors:
  /// bad_argument, timeout, peer_failed, peer_left, closed, exhausted.
  Status lookup(std::span<const std::uint64_t> ids, std::span<float> rows,
                Deadline deadline = {}) noexcept;
  /// Worker: a gradient for each of `ids`, laid out as rows. Both may be reused when it returns,
  /// which is before the servers have made the update; waits only for the answer to the last push.
  Status push(std::span<const std::uint64_t> ids, std::span<const float> gradients,
              Deadline deadline = {}) noexcept;
  /// Worker: a push, then a lookup, in the same request: a whole step of training.
  Status push_lookup(std::span<const std::uint64_t> pushed, std::span<const float> gradients,
                     std::span<const std::uint64_t> ids, std::span<float> rows,
                     Deadline deadline = {}) noexcept;
  /// Worker: waits until the last push is in.
  Status flush(Deadline deadline = {}) noexcept;

  std::size_t dim() const noexcept;
  /// Updates done, those before a checkpoint that was restored included. A worker's: of what the
  /// servers answered last, the least of all.
  std::uint64_t version() const noexcept;
  /// This rank's shard's; all zero where there is none.
  SparseStatistics statistics() const;
  /// The rank of the server that holds a row.
  int server_of(std::uint64_t id) const noexcept;

 private:
  friend class ParameterServer;
  explicit SparseTable(std::shared_ptr<detail::SparseState> state) noexcept;
  std::shared_ptr<detail::SparseState> state_;
};

}  // namespace weft::pslib
