// Events behind a descriptor.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "base/os/fd.hpp"

namespace weft::p2p::verbs::fake {

/// The descriptor is readable while there are events, and blocks or not as its user sets it.
/// Thread-safe.
template <typename Event>
class EventQueue {
 public:
  EventQueue() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

  /// -1: descriptors are used up.
  int fd() const noexcept { return fd_.get(); }

  void push(const Event& event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    const std::uint64_t one = 1;
    (void)!::write(fd_.get(), &one, sizeof one);
  }

  /// Takes the oldest event, `taken` of it within the queue's lock. 0 or an errno: EAGAIN where
  /// there is none and the descriptor does not block.
  template <typename Taken>
  int pop(Event& event, const Taken& taken) {
    while (true) {
      std::uint64_t one = 0;
      if (::read(fd_.get(), &one, sizeof one) < 0) return errno;
      const std::lock_guard lock(mutex_);
      const std::optional<Event> front = events_.front();
      events_.pop_front();
      if (!front) continue;
      event = *front;
      taken(event);
      return 0;
    }
  }

  /// Events that match are never read. They leave a gap, since a reader may be past the descriptor
  /// already.
  template <typename Match>
  void forget(const Match& match) {
    const std::lock_guard lock(mutex_);
    for (std::optional<Event>& event : events_)
      if (event && match(*event)) event.reset();
  }

 private:
  const os::Fd fd_;
  std::mutex mutex_;
  std::deque<std::optional<Event>> events_;
};

}  // namespace weft::p2p::verbs::fake
