// A publication: its tensors, versions and statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pslib/publication/layout.hpp"
#include "pslib/publication/snapshots.hpp"
#include "weft/publication.hpp"

namespace weft::pslib::detail {

/// Shared by the application's handle and the subscribers' sessions. publish() from one thread; all
/// else from any thread.
class PublicationState {
 public:
  /// `wake` makes the publisher's thread call look() on this publication's sessions. `refusal`
  /// returns an error in a fork of the process, and once publisher or world have gone. Throws
  /// Error(bad_argument, system).
  PublicationState(std::string name, std::vector<PublishedTensor> specs,
                   const PublicationOptions& options, std::function<void()> wake,
                   std::function<Status()> refusal);

  Status publish(std::span<const Tensor> tensors, std::uint64_t step) noexcept;
  /// Called when the application's handle is destroyed.
  void close() noexcept;
  bool is_closed() const noexcept { return closed_.load(); }
  PublicationStatistics statistics() const noexcept;

  const std::string& name() const noexcept { return name_; }
  const std::vector<PublishedTensor>& specs() const noexcept { return specs_; }
  Snapshots& snapshots() noexcept { return snapshots_; }

  /// Counted by the publisher's thread. A session must check for a newer version once more after it
  /// was counted as waiting.
  struct Counts {
    std::atomic<int> subscribers{0};
    std::atomic<int> waiting{0};
    std::atomic<std::uint64_t> full_sent{0};
    std::atomic<std::uint64_t> deltas_sent{0};
    std::atomic<std::uint64_t> full_bytes{0};
    std::atomic<std::uint64_t> delta_bytes{0};
    std::atomic<std::uint64_t> revoked{0};
  };
  Counts counts;

 private:
  TensorPlaces places_of(std::span<const Tensor> tensors) const;

  const std::string name_;
  const std::vector<PublishedTensor> specs_;
  const std::function<void()> wake_;
  const std::function<Status()> refusal_;
  Snapshots snapshots_;
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> rows_changed_{0};
  std::atomic<std::uint64_t> bytes_copied_{0};
};

}  // namespace weft::pslib::detail
