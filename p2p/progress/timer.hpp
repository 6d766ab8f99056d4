// A timer on the progress thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "p2p/progress/watched_fd.hpp"

namespace weft::p2p {

/// Runs `on_time` again and again while it is started. Costs nothing while it is not.
/// Progress thread only, but for the constructor.
class Timer {
 public:
  /// `expired`: how many periods have passed since the last time; more than one when this process
  /// was late itself.
  using OnTime = std::function<void(std::uint64_t expired)>;

  /// Throws Error(system).
  Timer(ProgressThread& progress, std::chrono::nanoseconds period, OnTime on_time);

  void start() noexcept;
  void stop() noexcept;
  /// From now on; while it is started.
  void change(std::chrono::nanoseconds period) noexcept;

 private:
  void set(std::chrono::nanoseconds period) noexcept;

  const std::chrono::nanoseconds period_;
  bool started_ = false;
  Watched fd_;
};

}  // namespace weft::p2p
