// The state of one shard of an asynchronous table, on one of its replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/async/gradients.hpp"
#include "pslib/optimizer/updater.hpp"
#include "pslib/replication/replica.hpp"
#include "pslib/table/checkpoints.hpp"
#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Changes only by records, so two replicas are equal after the same records. Every update goes
/// into another buffer of the region than the last, so an update waits for readers only if they
/// hold all other buffers. Not thread-safe.
class AsyncShard {
 public:
  /// Throws Error as World::expose does. `table` must outlive the shard.
  AsyncShard(World& world, const Description& table, std::size_t shard);

  /// As TableShard::wait_until.
  void wait_until(Deadline deadline) noexcept { until_ = deadline; }

  /// The pushes of the next record; empty if it is too early for one.
  std::vector<RecordedPush> next_record(const Gradients& gradients) const;
  /// Applies a record. The shard's part of all its pushes must be readable in `gradients`.
  Status apply(std::span<const RecordedPush> pushes, const Gradients& gradients) noexcept;
  /// Publishes the values if a record has changed them.
  Status publish() noexcept;

  bool has_parameters() const noexcept { return has_parameters_; }
  std::uint64_t version() const noexcept { return version_; }
  /// The worker's last push that was applied, folded in or dropped.
  std::uint64_t done(std::size_t worker) const noexcept { return done_[worker]; }
  /// The highest number of pushes after which a worker may pull.
  std::uint64_t permit(const Gradients& gradients) const noexcept;
  const TableStatistics& statistics() const noexcept { return statistics_; }

  /// Bytes read of one push, of a pull, and of values with states.
  std::size_t bytes_read() const noexcept {
    return table_.bytes_read(static_cast<std::int64_t>(elements()));
  }
  std::size_t bytes_written() const noexcept { return elements() * size_of(table_.options.wire); }
  std::size_t memory() const noexcept {
    return newest_.bytes() +
           (master_.size() + updater_.arrays().size() * elements()) * sizeof(float);
  }

  /// As save_shard(). Requires a version.
  Status write(Checkpointer& to) noexcept;

  // The whole state, for another replica.
  std::size_t snapshot_bytes() noexcept;
  void save(std::byte* to) noexcept;
  /// Loads a state and publishes its values; on an error nothing changes. mismatch: `rank` offered
  /// an invalid state.
  Status load(const std::byte* from, int rank) noexcept;

 private:
  // The state's scalars; copied as bytes into a snapshot.
  struct Counts {
    std::uint64_t version = 0;
    std::uint64_t has_parameters = 0;
    Updater::Progress progress;
    TableStatistics statistics;
  };

  bool takes_one() const noexcept;
  void keep_slowest(std::vector<RecordedPush>& pushes) const;
  std::size_t quorum(const Gradients& gradients) const noexcept;
  bool is_late(std::size_t worker, const Gradients& gradients) const noexcept;
  void count(const Gradients& gradients) noexcept;
  Status update(const Gradients& gradients) noexcept;
  Status make_version(const Gradients& gradients) noexcept;
  Status start(float* to, const Gradients& gradients) noexcept;
  Sources sources(const Run& run, const Gradients& gradients) noexcept;
  void finish(const Tensor& buffer) noexcept;
  float* master(const Tensor& buffer) noexcept;
  std::size_t elements() const noexcept;
  std::size_t mask_words() const noexcept;

  const Description& table_;
  const int home_;
  PublishedSlot region_;
  std::int64_t header_;        // elements of RegionWords before the parameters
  Tensor newest_;              // the region's buffer of the last version
  std::vector<float> master_;  // fp32 parameters, if the region holds 16-bit ones
  std::vector<Run> runs_;
  std::vector<std::uint64_t> done_;
  std::vector<std::uint64_t> mask_;        // contributors of the last version
  std::vector<std::size_t> contributors_;  // contributors of the update being made, in order
  std::vector<Source> sources_;
  Updater updater_;
  std::uint64_t version_ = 0;
  bool has_parameters_ = false;
  bool is_published_ = true;
  TableStatistics statistics_;
  Deadline until_;
};

}  // namespace weft::pslib
