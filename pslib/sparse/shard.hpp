// A server's side of a sparse table: its rows, and the requests that it answers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pslib/checkpoint/checkpointer.hpp"
#include "pslib/optimizer/rule_step.hpp"
#include "pslib/sparse/description.hpp"
#include "pslib/sparse/request.hpp"
#include "pslib/sparse/row_store.hpp"
#include "pslib/sparse/unique_ids.hpp"
#include "pslib/table/table_shard.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Reads requests where they lie in the workers' memory, and writes rows straight into the answers.
/// Thread-safety: one thread at a time.
class SparseShard final : public TableShard {
 public:
  /// Exposes an answer slot for every worker, and has the rows of the checkpoint that the table
  /// starts from. Throws Error as World::expose does, mismatch, system. `table` must
  /// outlive the shard.
  SparseShard(World& world, const SparseDescription& table);
  /// Attaches to every worker's requests.
  void attach(World& world, Deadline deadline);

  std::size_t workers() const noexcept override { return workers_.size(); }
  PublishedReader& gradients(std::size_t worker) noexcept override {
    return workers_[worker].requests;
  }
  Status take(std::size_t worker, Deadline deadline) noexcept override;
  /// Makes the updates that can be made and answers whom it can.
  Status advance() noexcept override;
  bool needs_all() const noexcept override;
  bool tells_who_is_lost() const noexcept override { return true; }
  bool survives(int) const noexcept override { return table_.is_asynchronous(); }
  Status drop(std::size_t worker) noexcept override;
  std::uint64_t version() const noexcept override { return version_; }
  TableStatistics statistics() const override { return pushes_; }
  ShardLoad load() const noexcept override;

  /// Whether a worker's next request is still to come, if it is to make `calls` calls.
  bool owes(std::size_t worker, std::uint64_t calls) const noexcept {
    return workers_[worker].calls < calls && !workers_[worker].request;
  }
  /// Whether every worker's first `calls` calls were answered.
  bool has_answered(std::uint64_t calls) const noexcept;
  SparseStatistics sparse_statistics() const noexcept;

 private:
  // Rows of a push that was larger than a request: a copy of its first parts.
  struct Kept {
    std::vector<std::uint64_t> ids;
    std::vector<std::byte> gradients;
  };
  struct Worker {
    PublishedReader requests;
    PublishedSlot answers;
    Arrival request;          // below its slot; empty once answered
    RequestHead head;         // of it, as it was when it was looked at
    bool is_new = false;      // the request's push has not been looked at
    bool has_pushed = false;  // all of the push that the next update waits for
    Kept kept;
    std::uint64_t pushes = 0;  // whole ones
    std::uint64_t calls = 0;   // answered
    bool is_gone = false;
  };
  struct Gradient {
    const std::byte* values;
    std::uint32_t next;  // of the same row, in rank order; kNoGradient: none
  };

  Status check(const Worker& worker, const RequestHead& head) const noexcept;
  RequestParts<const std::byte> parts(const Worker& worker) const noexcept;
  void serve();
  void take_push(Worker& worker);
  bool may_be_answered(const Worker& worker) const noexcept;
  void answer(Worker& worker);
  void tell_who_is_lost(Worker& worker, int rank);
  void count_push(const Worker& worker) noexcept;

  void keep(Worker& worker);
  bool has_every_push() const noexcept;
  void update_from_all();
  void update_at_once(const Worker& worker);
  void collect(std::span<const std::uint64_t> ids, const std::byte* gradients);
  const float* as_f32(const std::byte* gradient, std::size_t source) noexcept;
  void save();
  void update_row(const RuleConstants& constants, std::uint64_t id, kernels::Gradients gradients);

  const SparseDescription& table_;
  const std::size_t dim_;
  const WireRows wire_;
  const std::size_t states_;
  RowStore store_;
  AppliedRule rule_;
  std::vector<Worker> workers_;
  std::uint64_t version_ = 0;
  TableStatistics pushes_;
  SparseStatistics counted_;
  std::uint64_t pushed_rows_ = 0;  // that came, once for each request

  // An update's rows, and for each its gradients as a list.
  UniqueIds rows_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> last_;
  std::vector<Gradient> gradients_;
  std::vector<const float*> sources_;
  std::vector<float> wide_;  // rows that are not sent as f32: a block's, or a row's gradients

  std::unique_ptr<Checkpointer> checkpointer_;  // reads the store until it is gone
};

}  // namespace weft::pslib
