// Background operations. Any thread blocked in weft makes progress on all of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "p2p/progress/doorbell.hpp"

namespace weft::p2p {

/// State of the operations after a call of progress().
enum class ProgressResult : std::uint8_t {
  done,
  notified,   ///< more to do; the doorbell rings when the operations can go on
  needs_poll  ///< more to do, and nothing rings the doorbell: poll again soon
};

/// Operations of one kind that advance only within calls of the application and outlive the call
/// that started them: a group's collectives, the rank's messages.
class Progressable {
 public:
  Progressable() = default;
  Progressable(const Progressable&) = delete;
  Progressable& operator=(const Progressable&) = delete;

  /// Progresses the operations as far as possible. `may_block` allows a short wait for another
  /// rank's progress thread or NIC. Called by any waiting thread, by one at a time, and never while
  /// the owning thread works on the operations.
  virtual ProgressResult progress(bool may_block) noexcept = 0;

 protected:
  ~Progressable() = default;

 private:
  friend class ProgressRegistry;
  int place_ = -1;     ///< slot in the registry, -1 if none; owning thread only
  bool left_ = false;  ///< true while other threads may progress it; owning thread only
};

/// A rank's background operations. The owning thread leaves its operations here at the end of a
/// call and acquires them again in the next; in between every waiting thread progresses them. Costs
/// one atomic load per poll when nothing is left here. Allocates nothing.
class ProgressRegistry {
 public:
  /// Most operations registered at once.
  static constexpr int kPlaces = 64;

  explicit ProgressRegistry(Doorbell& bell) noexcept : bell_(bell) {}

  // Owning thread only.
  /// Assigns a slot to `operations` unless they have one. False if all kPlaces slots are taken.
  bool admit(Progressable& operations) noexcept;
  /// Frees the slot of `operations`, if any. The owning thread must have acquired them.
  void dismiss(Progressable& operations) noexcept {
    if (operations.place_ != kNone) [[unlikely]]
      clear(operations);
  }
  /// Lets other threads progress `operations`; without effect if no slot is free.
  void leave(Progressable& operations) noexcept;
  /// Takes `operations` back: returns once no other thread is progressing them, and none does
  /// after.
  void acquire(Progressable& operations) noexcept {
    if (operations.left_) [[unlikely]]
      take_back(operations);
  }

  // Any thread.
  /// Progresses all operations left here. Returns needs_poll if another thread is progressing some.
  ProgressResult progress(bool may_block) noexcept {
    if (left_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return ProgressResult::done;
    return progress_all(may_block);
  }
  /// Ends all progress. Waits for threads that are progressing operations.
  void stop() noexcept;

 private:
  static constexpr int kNone = -1;

  void clear(Progressable& operations) noexcept;
  void take_back(Progressable& operations) noexcept;
  ProgressResult progress_all(bool may_block) noexcept;

  Doorbell& bell_;
  // Bit masks, one bit per slot.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> moved_{0};  ///< a thread is progressing it now
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> stopped_{false};
  std::array<Progressable*, kPlaces> entries_{};
};

/// Makes the current thread the only one to progress `operations` for this object's lifetime. `T`
/// is a Progressable with `busy()`, true while it has operations, and `kKeepsSlot`, true if it
/// keeps its registry slot when it has none.
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
