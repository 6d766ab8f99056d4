// The stored versions of a publication, and the leases of subscribers that are being sent them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/os/mapping.hpp"
#include "pslib/publication/history.hpp"
#include "pslib/publication/layout.hpp"
#include "pslib/publication/run_cursor.hpp"
#include "weft/deadline.hpp"
#include "weft/publication.hpp"

namespace weft::pslib {

/// A few buffers, each with one version. A sender holds a lease of its buffer, which the publisher
/// revokes when it needs the buffer; publish() never waits for longer than one with() call. The
/// publisher revokes the lease held for the shortest time, or one whose subscriber took nothing for
/// kStalled. So the transfer that began first ends first, and all transfers end. publish() from one
/// thread at a time; all else from any thread.
class Snapshots {
 public:
  static constexpr std::chrono::seconds kStalled{1};

  /// Throws Error(system).
  Snapshots(std::shared_ptr<const PublishedLayout> layout, const PublicationOptions& options);

  /// Result of publish().
  struct Published {
    std::uint64_t rows_changed = 0;
    std::uint64_t bytes_copied = 0;
  };
  /// Stores the next version. `sources` has the address of each tensor.
  Published publish(const TensorPlaces& sources, std::uint64_t step);
  std::uint64_t newest() const noexcept { return newest_version_.load(); }

  /// The right to send a buffer's contents.
  struct Lease {
    std::size_t buffer = 0;
    std::uint64_t version = 0;
    std::uint64_t number = 0;
  };
  /// The data for a subscriber that has version `have`. The caller must end the lease.
  struct Offer {
    Lease lease;
    std::uint64_t step = 0;
    std::uint64_t from = 0;  ///< 0: all rows
    RowRuns runs;
    TensorPlaces places;
  };
  /// Requires newest() > 0.
  Offer offer(std::uint64_t have);
  /// Runs `act`, which returns true if the subscriber took data. False, without running it, if the
  /// lease was revoked.
  template <typename Act>
  bool with(const Lease& lease, const Act& act) {
    Buffer& buffer = buffers_[lease.buffer];
    const std::lock_guard lock(buffer.guard);
    Held* held = buffer.find(lease.number);
    if (held == nullptr) return false;
    if (act()) held->progressed = Clock::now();
    return true;
  }
  void end(const Lease& lease) noexcept;

  const std::shared_ptr<const PublishedLayout>& layout() const noexcept { return layout_; }

 private:
  struct Held {
    std::uint64_t number = 0;
    Clock::time_point begun;
    Clock::time_point progressed;
  };
  struct Buffer {
    std::mutex guard;
    std::vector<Held> leases;   ///< guarded by `guard`
    std::uint64_t version = 0;  ///< written by publish() only; 0: none yet
    std::uint64_t step = 0;     ///< written by publish() only
    os::Mapping memory;

    Held* find(std::uint64_t number) noexcept;
    /// Start of the oldest lease that is not stalled; the end of time if there are no leases, just
    /// before that if all are stalled.
    Clock::time_point kept_since(Clock::time_point now) const noexcept;
  };

  std::optional<History::Changes> lease_newest(Offer& offer, std::uint64_t have);
  std::size_t take_buffer();
  RowRuns compare(const TensorPlaces& sources) const;
  TensorPlaces places(const Buffer& buffer) const;

  const std::shared_ptr<const PublishedLayout> layout_;
  const bool compares_;
  std::vector<Buffer> buffers_;
  std::mutex mutex_;  ///< guards newest_ and history_; taken before a `guard`
  std::size_t newest_ = 0;
  History history_;
  std::uint64_t leases_ = 0;  ///< leases granted so far; guarded by mutex_
  std::atomic<std::uint64_t> newest_version_{0};
};

}  // namespace weft::pslib
