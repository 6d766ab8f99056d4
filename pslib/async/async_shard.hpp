// The state of one shard of an asynchronous table, at one of its replicas.
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

/// Changed by records only, so two of the same shard are equal after the same records. Every update
/// goes into another buffer of the region than the last, so readers are never waited for unless
/// they hold all but that one.
/// Thread-safety: one thread at a time.
class AsyncShard {
 public:
  /// Throws Error as World::expose does. `table` must outlive the shard.
  AsyncShard(World& world, const Description& table, std::size_t shard);

  /// As TableShard::wait_until.
  void wait_until(Deadline deadline) noexcept { until_ = deadline; }

  /// What the next record would be; nothing when it is too early for one.
  std::vector<RecordedPush> next_record(const Gradients& gradients) const;
  /// All of the record's pushes can be read in `gradients`.
  Status apply(std::span<const RecordedPush> pushes, const Gradients& gradients) noexcept;
  /// Makes the values readable, if a record has changed them.
  Status publish() noexcept;

  bool has_parameters() const noexcept { return has_parameters_; }
  std::uint64_t version() const noexcept { return version_; }
  /// The last push of a worker's that is applied, folded in or dropped.
  std::uint64_t done(std::size_t worker) const noexcept { return done_[worker]; }
  /// The highest number of pushes after which a worker may pull.
  std::uint64_t permit(const Gradients& gradients) const noexcept;
  const TableStatistics& statistics() const noexcept { return statistics_; }

  /// Of its part of a push; of what workers pull; of values and states.
  std::size_t bytes_read() const noexcept {
    return table_.bytes_read(static_cast<std::int64_t>(elements()));
  }
  std::size_t bytes_written() const noexcept { return elements() * size_of(table_.options.wire); }
  std::size_t memory() const noexcept {
    return newest_.bytes() +
           (master_.size() + updater_.arrays().size() * elements()) * sizeof(float);
  }

  /// As save_shard does. Only when it has a version.
  Status write(Checkpointer& to) noexcept;

  // The whole state, for another replica.
  std::size_t snapshot_bytes() noexcept;
  void save(std::byte* to) noexcept;
  /// Also publishes the values. All or nothing; mismatch: `rank` has offered what is no state.
  Status load(const std::byte* from, int rank) noexcept;

 private:
  struct Part {
    Run run;
    std::int64_t from;  // in a worker's gradients
  };
  // What changes of the state besides the arrays; as bytes in a snapshot.
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
  Sources sources(const Part& part, const Gradients& gradients) noexcept;
  void finish(const Tensor& buffer) noexcept;
  float* master(const Tensor& buffer) noexcept;
  std::size_t elements() const noexcept;
  std::size_t mask_words() const noexcept;

  const Description& table_;
  const int home_;
  PublishedSlot region_;
  std::int64_t header_;        // elements of words in front of the region's parameters
  Tensor newest_;              // the region's buffer of the last version
  std::vector<float> master_;  // the parameters, where the region holds 16-bit ones
  std::vector<Part> parts_;
  std::vector<std::uint64_t> done_;
  std::vector<std::uint64_t> mask_;        // of the last version
  std::vector<std::size_t> contributors_;  // of the update that is being made, in their order
  std::vector<const std::byte*> sources_;
  Updater updater_;
  std::uint64_t version_ = 0;
  bool has_parameters_ = false;
  bool is_published_ = true;
  TableStatistics statistics_;
  Deadline until_;
};

}  // namespace weft::pslib
