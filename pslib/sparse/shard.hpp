// A server's side of a sparse table: its rows, and its answers to requests.
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

/// Reads requests in place from the workers' memory, or fetches as much of them as is used, and
/// writes rows directly into the answers. Not thread-safe.
class SparseShard final : public TableShard {
 public:
  /// Exposes an answer slot per worker and restores the rows of the table's checkpoint. `table`
  /// must outlive the shard. Throws Error as World::expose does, mismatch, system.
  SparseShard(World& world, const SparseDescription& table);
  /// Attaches to every worker's requests.
  void attach(World& world, Deadline deadline);

  std::size_t workers() const noexcept override { return workers_.size(); }
  PublishedReader& gradients(std::size_t worker) noexcept override {
    return workers_[worker].requests;
  }
  Status take(std::size_t worker, Deadline deadline) noexcept override;
  /// Makes the updates and sends the answers that are possible.
  Status advance() noexcept override;
  bool needs_all() const noexcept override;
  bool tells_who_is_lost() const noexcept override { return true; }
  bool survives(int) const noexcept override { return table_.is_asynchronous(); }
  Status drop(std::size_t worker) noexcept override;
  std::uint64_t version() const noexcept override { return version_; }
  TableStatistics statistics() const override { return pushes_; }
  ShardLoad load() const noexcept override;

  /// True if the worker's next request is still to come, given that it is to make `calls` calls.
  bool owes(std::size_t worker, std::uint64_t calls) const noexcept {
    return workers_[worker].calls < calls && !workers_[worker].request;
  }
  /// True if the first `calls` calls of every worker are answered.
  bool has_answered(std::uint64_t calls) const noexcept;
  SparseStatistics sparse_statistics() const noexcept;

 private:
  // Copied rows of a push that spans several requests: those of its earlier requests.
  struct Kept {
    std::vector<std::uint64_t> ids;
    std::vector<std::byte> gradients;
  };
  struct Worker {
    PublishedReader requests;
    PublishedSlot answers;
    Arrival request;                     // declared below its slot; empty once answered
    RequestHead head;                    // copy of the request's head
    std::size_t expected = kRequestIds;  // bytes that the next request is likely to take
    bool is_new = false;                 // the request's push has not been processed
    bool has_pushed = false;             // the push for the next update is complete
    Kept kept;
    std::uint64_t pushes = 0;  // complete pushes
    std::uint64_t calls = 0;   // answered
    bool is_gone = false;
  };
  struct Gradient {
    const std::byte* values;
    std::uint32_t next;  // next of the same row, in rank order, or kNoGradient
  };

  Status check(const Worker& worker, const RequestHead& head) const noexcept;
  std::size_t bytes_of(const RequestHead& head) const noexcept;
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
  std::uint64_t pushed_rows_ = 0;  // received, once per request

  // An update's rows, and a list of gradients for each.
  UniqueIds rows_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> last_;
  std::vector<Gradient> gradients_;
  std::vector<const float*> sources_;
  std::vector<float> wide_;  // scratch for rows not sent as f32: a block's, or a row's gradients

  std::unique_ptr<Checkpointer> checkpointer_;  // reads the store until destroyed
};

}  // namespace weft::pslib
