// Puts that were refused: whether the writer's application knows, and what the owner is told.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/local_rank.hpp"
#include "p2p/transport/unseen_failure.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Why a put was refused.
using RefusedPut = UnseenFailure;

/// The writer's: its last refused put, until the application has looked at its request. Nothing of
/// it is on the data path.
class UnseenRefusal {
 public:
  /// Time for the application to look before the refusal is logged.
  static constexpr std::chrono::seconds kGrace{1};

  UnseenRefusal(LocalRank& local, Mesh& mesh, Peer& owner) noexcept
      : local_(local), mesh_(mesh), owner_(owner) {}

  struct Place {
    std::uint64_t slot_id = 0;    ///< what the owner calls the slot
    std::uint64_t remote_id = 0;  ///< this end
    std::uint64_t sequence = 0;   ///< that the put would have had
  };
  /// The status for the put's request; `why` itself if the put failed by another rank's doing, of
  /// which other errors tell. Any thread.
  Status keep(const Status& why, const Place& place) noexcept;
  /// Whether a refusal is kept that the program has not looked at, as far as is known here.
  bool is_kept() const noexcept { return is_kept_.load(std::memory_order_relaxed); }
  /// Whether `status` is what keep() has returned last.
  bool holds(const Status& status) noexcept;
  /// The application looks at it.
  void see() noexcept;
  /// Progress thread: logs the refusal once its grace is over. Returns whether to call again.
  bool serve() noexcept;
  /// The writer's end goes: logs the refusal at once.
  void finish() noexcept;

 private:
  void log_and_tell() noexcept;
  void tell() noexcept;

  LocalRank& local_;
  Mesh& mesh_;
  Peer& owner_;
  std::atomic<bool> is_kept_{false};
  std::mutex mutex_;  ///< guards the following members
  std::shared_ptr<const RefusedPut> refusal_;
  Clock::time_point since_{};
  Place place_;
  std::uint64_t told_ = 0;  ///< the last sequence that the owner was told of
  bool is_logged_ = false;
};

/// The owner's: what its writer has said of a put.
class ToldRefusal {
 public:
  void keep(const PutRefusedMessage& message);
  /// Why tensor `sequence` was not put: "mismatch: the tensor is ..."; empty if nothing is known.
  std::string of(std::uint64_t sequence) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t sequence_ = 0;
  std::string why_;
};

}  // namespace weft::p2p
