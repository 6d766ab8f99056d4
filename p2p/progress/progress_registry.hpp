// What was begun and is not waited for: whoever waits, for whatever it be, moves it on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "p2p/progress/doorbell.hpp"

namespace weft::p2p {

/// What is left of operations that were moved.
enum class Left : std::uint8_t {
  nothing,
  rings,  ///< a bell will ring when they can go on
  silent  ///< nobody rings for what they wait for: look again soon
};

/// How operations are moved.
enum class Pace : std::uint8_t {
  promptly,  ///< without any wait: who moves them only tests something
  patiently  ///< a wait for another rank's progress thread or NIC is borne, as in reading a message
};

/// Operations of one kind that go on within calls of the application alone, and outlive the call
/// that began them: a group's collectives, the rank's messages.
class Ongoing {
 public:
  Ongoing() = default;
  Ongoing(const Ongoing&) = delete;
  Ongoing& operator=(const Ongoing&) = delete;

  /// Takes them as far as they go. By whichever thread waits; never two at once, and none while
  /// their own thread attends to them.
  virtual Left move(Pace pace) noexcept = 0;

 protected:
  ~Ongoing() = default;

 private:
  friend class Unattended;
  int place_ = -1;     ///< among the unattended
  bool left_ = false;  ///< and not attended to since. Both are their own thread's
};

/// A rank's ongoing operations that no thread is at. Their own thread leaves them here at the end
/// of a call, and attends to them again in the next; in between, all threads that wait move them.
/// Who has nothing ongoing pays a load for each look. Nothing is allocated.
class Unattended {
 public:
  /// So many have a place at once.
  static constexpr int kPlaces = 64;

  explicit Unattended(Doorbell& bell) noexcept : bell_(bell) {}

  // Their own thread.
  /// Gives them a place, unless they have one. False: all are taken.
  bool admit(Ongoing& ongoing) noexcept;
  /// Gives it back, if they have one. They are attended to.
  void dismiss(Ongoing& ongoing) noexcept {
    if (ongoing.place_ != kNone) [[unlikely]]
      clear(ongoing);
  }
  /// Others may move them from now on; nobody does where all places are taken.
  void leave(Ongoing& ongoing) noexcept;
  /// From now on nobody else moves them. Waits for who is at it.
  void attend(Ongoing& ongoing) noexcept {
    if (ongoing.left_) [[unlikely]]
      take_back(ongoing);
  }

  // Any thread.
  /// Moves all but those that a thread is at already: for these, Left::silent.
  Left move(Pace pace) noexcept {
    if (left_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return Left::nothing;
    return move_all(pace);
  }
  /// Nothing is moved any more. Waits for who is at it.
  void stop() noexcept;

 private:
  static constexpr int kNone = -1;

  void clear(Ongoing& ongoing) noexcept;
  void take_back(Ongoing& ongoing) noexcept;
  Left move_all(Pace pace) noexcept;

  Doorbell& bell_;
  // By place.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> moved_{0};  ///< by a thread that is at it now
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> stopped_{false};
  std::array<Ongoing*, kPlaces> ongoing_{};
};

/// While it lives, its thread alone moves the operations. `T`: an Ongoing with busy(), whether
/// there are any, and kKeepsPlace, whether its place is its own also when there are none.
template <typename T>
class Attending {
 public:
  Attending(Unattended& all, T& ongoing) noexcept : all_(all), ongoing_(ongoing) {
    all_.attend(ongoing_);
  }
  ~Attending() {
    if (ongoing_.busy()) [[unlikely]]
      all_.leave(ongoing_);
    else if (!T::kKeepsPlace)
      all_.dismiss(ongoing_);
  }
  Attending(const Attending&) = delete;
  Attending& operator=(const Attending&) = delete;

 private:
  Unattended& all_;
  T& ongoing_;
};

}  // namespace weft::p2p
