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

/// How a sparse table's rows are made, updated and stored. docs/pslib.md defines an update.
struct SparseOptions {
  std::size_t dim = 0;  ///< f32 elements per row
  /// Any rule but lars, whose ratio needs whole tensors. Each row has its own rule state; counts
  /// (adam's steps, the schedule's updates) are the table's.
  Optimizer optimizer{};
  Schedule schedule{};
  /// Type of gradients and looked-up values in transit: f32, f16 or bf16. The caller's spans,
  /// stored rows and states are always f32. A row's gradient is rounded once, after duplicates were
  /// added, and so is each looked-up value: to nearest even, and to infinity if too large for the
  /// type.
  DType wire = DType::f32;
  Consistency consistency{};  ///< all but k_of_n
  /// Initial values of a row are uniform in [-spread, spread), as a function of `seed` and the
  /// row's id alone.
  std::uint64_t seed = 0;
  float spread = 0.01F;
  /// Store and update a row once `admit_after` requests have looked it up. Gradients of other rows
  /// are dropped and counted. 0: store it at its first update.
  std::uint32_t admit_after = 0;
  /// Reset a row to its initial values if it was neither looked up nor updated for more than
  /// `expire_after` updates. 0: never.
  std::uint64_t expire_after = 0;
  /// Most distinct rows per request to one server. Each pair of worker and server shares memory for
  /// `request_rows` gradients and `request_rows` values. A batch with more rows for one server is
  /// sent as several requests.
  std::size_t request_rows = 4096;
  CheckpointOptions checkpoint{};
};

/// Counters of this rank's shard of a sparse table.
struct SparseStatistics {
  std::uint64_t rows = 0;          ///< rows stored, or counted for admission
  std::uint64_t bytes = 0;         ///< memory of rows, states and index
  std::uint64_t requests = 0;      ///< requests of all workers
  std::uint64_t looked_up = 0;     ///< rows looked up
  std::uint64_t updated = 0;       ///< rows updated, counted once per update
  std::uint64_t not_admitted = 0;  ///< gradients dropped because their row was not admitted
};

namespace detail {
class SparseState;
}  // namespace detail

/// A table of rows by id. A worker looks rows up and pushes gradients for them in batches. An id
/// may occur several times in a batch: it is sent once, and its gradients are added in the batch's
/// order. Each call is one request to every server; a worker with nothing to push or look up passes
/// empty spans, which keeps it in step.
///
/// Under bsp, update n takes all workers' n-th pushes: a row's gradients are added in rank order
/// and divided by the number of workers (a worker that did not push the row counts as zero); rows
/// that no worker pushed are unchanged. A worker that has pushed n times sees update n, so its
/// lookup waits for the others' pushes. With ssp and async each push is an update.
///
/// If ranks both work and serve, all workers must make the same calls, since a shard works inside
/// the calls of its own rank. Destroy a table only when the other ranks have got what they need
/// from its shard: calling World::leave() before destroying the tables ensures that. Thread-safety:
/// one thread at a time.
class WEFT_API SparseTable {
 public:
  SparseTable(SparseTable&&) noexcept;
  SparseTable& operator=(SparseTable&&) noexcept;
  ~SparseTable();

  /// Worker: writes the rows of `ids` to `rows`, which holds ids.size() * dim() elements. After a
  /// timeout the same call resumes. Another call is bad_argument then, unless this one has sent
  /// nothing yet, because it waited for the answers to the last push(). Errors: bad_argument,
  /// timeout, peer_failed, peer_left, closed, exhausted.
  Status lookup(std::span<const std::uint64_t> ids, std::span<float> rows,
                Deadline deadline = {}) noexcept;
  /// Worker: pushes one gradient for each of `ids`, laid out as rows are. Both spans may be reused
  /// when it returns, which is before the servers have made the update: it waits only for the
  /// answer to the previous push. Errors and timeout: as lookup().
  Status push(std::span<const std::uint64_t> ids, std::span<const float> gradients,
              Deadline deadline = {}) noexcept;
  /// Worker: a push and a lookup in one request, which is a whole training step. Errors and
  /// timeout: as lookup().
  Status push_lookup(std::span<const std::uint64_t> pushed, std::span<const float> gradients,
                     std::span<const std::uint64_t> ids, std::span<float> rows,
                     Deadline deadline = {}) noexcept;
  /// Worker: waits until every server has answered the last push.
  Status flush(Deadline deadline = {}) noexcept;

  /// f32 elements per row.
  std::size_t dim() const noexcept;
  /// The number of updates done, including those before a restored checkpoint. Worker: the smallest
  /// version in the servers' last answers.
  std::uint64_t version() const noexcept;
  /// The counters of this rank's shard; all zero if this rank has none.
  SparseStatistics statistics() const;
  /// The rank of the server that holds row `id`.
  int server_of(std::uint64_t id) const noexcept;

 private:
  friend class ParameterServer;
  explicit SparseTable(std::shared_ptr<detail::SparseState> state) noexcept;
  std::shared_ptr<detail::SparseState> state_;
};

}  // namespace weft::pslib
