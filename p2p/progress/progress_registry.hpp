// Background operations. Any thread blocked in weft makes progress on all of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "p2p/progress/doorbell.hpp"

namespace weft::p2p {

/// What is left of operations that were moved.
enum class ProgressResult : std::uint8_t {
  done,
  notified,   ///< the doorbell rings when the operations can go on
  needs_poll  ///< no doorbell rings for what the operations wait for: poll again soon
};

/// Operations of one kind that go on within calls of the application alone, and outlive the call
/// that began them: a group's collectives, the rank's messages.
class Progressable {
 public:
  Progressable() = default;
  Progressable(const Progressable&) = delete;
  Progressable& operator=(const Progressable&) = delete;

  /// Progresses the operations as far as they go. `may_block`: a short wait for another rank's
  /// progress thread or NIC is allowed. Called by whichever thread waits; never two at once, and
  /// none while their own thread attends to them.
  virtual ProgressResult progress(bool may_block) noexcept = 0;

 protected:
  ~Progressable() = default;

 private:
  friend class ProgressRegistry;
  int place_ = -1;     ///< in the registry
  bool left_ = false;  ///< and not attended to since. Both are their own thread's
};

/// A rank's ongoing operations that no thread is at. Their own thread leaves them here at the end
/// of a call, and attends to them again in the next; in between, all threads that wait move them.
/// Who has nothing ongoing pays a load for each look. Nothing is allocated.
class ProgressRegistry {
 public:
  /// So many have a place at once.
  static constexpr int kPlaces = 64;

  explicit ProgressRegistry(Doorbell& bell) noexcept : bell_(bell) {}

  // Their own thread.
  /// Gives them a place, unless they have one. False: all are taken.
  bool admit(Progressable& operations) noexcept;
  /// Gives it back, if they have one. They are attended to.
  void dismiss(Progressable& operations) noexcept {
    if (operations.place_ != kNone) [[unlikely]]
      clear(operations);
  }
  /// Others may move them from now on; nobody does where all places are taken.
  void leave(Progressable& operations) noexcept;
  /// From now on nobody else moves them. Waits for who is at it.
  void acquire(Progressable& operations) noexcept {
    if (operations.left_) [[unlikely]]
      take_back(operations);
  }

  // Any thread.
  /// Moves all but those that a thread is at already: for these, ProgressResult::needs_poll.
  ProgressResult progress(bool may_block) noexcept {
    if (left_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return ProgressResult::done;
    return progress_all(may_block);
  }
  /// Nothing is moved any more. Waits for who is at it.
  void stop() noexcept;

 private:
  static constexpr int kNone = -1;

  void clear(Progressable& operations) noexcept;
  void take_back(Progressable& operations) noexcept;
  ProgressResult progress_all(bool may_block) noexcept;

  Doorbell& bell_;
  // By place.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> moved_{0};  ///< by a thread that is at it now
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> stopped_{false};
  std::array<Progressable*, kPlaces> entries_{};
};

/// While it lives, its thread alone moves the operations. `T`: a Progressable with busy(), whether
/// there are any, and kKeepsSlot, whether its place is its own also when there are none.
template <typename T>
class ScopedOwner {
 public:
  ScopedOwner(ProgressRegistry& all, T& operations) noexcept : all_(all), entries_(operations) {
    all_.acquire(entries_);
  }
  ~ScopedOwner() {
    if (entries_.busy()) [[unlikely]]
      all_.leave(entries_);
    else if (!T::kKeepsSlot)
      all_.dismiss(entries_);
  }
  ScopedOwner(const ScopedOwner&) = delete;
  ScopedOwner& operator=(const ScopedOwner&) = delete;

 private:
  ProgressRegistry& all_;
  T& entries_;
};

}  // namespace weft::p2p
