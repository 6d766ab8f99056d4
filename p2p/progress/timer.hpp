// A periodic timer on the progress thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "p2p/progress/watched_fd.hpp"

namespace weft::p2p {

/// Calls `on_time` every `period` between start() and stop(). A stopped timer costs nothing.
/// Progress thread only, except for the constructor; where others start it, the callers lock.
class Timer {
 public:
  /// `expired` is the number of periods since the last call; above 1 when this process ran late.
  using OnTime = std::function<void(std::uint64_t expired)>;

  /// Throws Error(system) if no timer descriptor can be created or watched.
  Timer(ProgressThread& progress, std::chrono::nanoseconds period, OnTime on_time);

  void start() noexcept;
  void stop() noexcept;
  /// Changes the period of a started timer until it is stopped.
  void change(std::chrono::nanoseconds period) noexcept;

 private:
  void set(std::chrono::nanoseconds period) noexcept;

  const std::chrono::nanoseconds period_;
  std::atomic<bool> started_{false};
  Watched fd_;
};

}  // namespace weft::p2p
