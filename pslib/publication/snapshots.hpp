// The versions of a publication that are held, and who is being sent which.
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

/// A few buffers, each with one version. Who sends a version has a lease of its buffer, which the
/// publisher takes away when it needs the buffer: it never waits for longer than one with() lasts.
/// It takes the lease that has been held for the shortest time, or that of a subscriber which has
/// taken nothing for kStalled: so whoever has begun first ends first, and everybody ends.
/// Thread-safety: publish() from one thread at a time, the rest from any.
class Snapshots {
 public:
  static constexpr std::chrono::seconds kStalled{1};

  /// Throws Error(system).
  Snapshots(std::shared_ptr<const PublishedLayout> layout, const PublicationOptions& options);

  /// What publish() did.
  struct Published {
    std::uint64_t rows_changed = 0;
    std::uint64_t bytes_copied = 0;
  };
  /// The next version. `sources`: where each tensor lies.
  Published publish(const TensorPlaces& sources, std::uint64_t step);
  std::uint64_t newest() const noexcept { return newest_version_.load(); }

  /// The right to send what lies in a buffer.
  struct Lease {
    std::size_t buffer = 0;
    std::uint64_t version = 0;
    std::uint64_t number = 0;
  };
  /// What a subscriber gets that has version `have`. Its lease is to be ended.
  struct Offer {
    Lease lease;
    std::uint64_t step = 0;
    std::uint64_t from = 0;  ///< 0: everything
    RowRuns runs;
    TensorPlaces places;
  };
  /// Requires newest() > 0.
  Offer offer(std::uint64_t have);
  /// Runs `act`, which says whether the subscriber has taken something, unless the lease has been
  /// taken away: then false.
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
    std::vector<Held> leases;   ///< by guard
    std::uint64_t version = 0;  ///< by the publisher, which reads it too; 0: none yet
    std::uint64_t step = 0;     ///< likewise
    os::Mapping memory;

    Held* find(std::uint64_t number) noexcept;
    /// When the lease was begun that is to be kept the longest; the end of time if there is none,
    /// just before it if all are stalled.
    Clock::time_point kept_since(Clock::time_point now) const noexcept;
  };

  std::optional<History::Changes> lease_newest(Offer& offer, std::uint64_t have);
  std::size_t take_buffer();
  RowRuns compare(const TensorPlaces& sources) const;
  TensorPlaces places(const Buffer& buffer) const;

  const std::shared_ptr<const PublishedLayout> layout_;
  const bool compares_;
  std::vector<Buffer> buffers_;
  std::mutex mutex_;  ///< guards newest_ and history_; taken before a guard
  std::size_t newest_ = 0;
  History history_;
  std::uint64_t leases_ = 0;  ///< how many there were; by mutex_
  std::atomic<std::uint64_t> newest_version_{0};
};

}  // namespace weft::pslib
