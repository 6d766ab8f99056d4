// The progress lines of a training.
#pragma once

#include <chrono>
#include <cstdint>

namespace charlm {

/// Prints a line to stdout about sixteen times in a run and at least every five seconds. It never
/// rewrites a line, since mpirun gives ranks a terminal even if its own output goes to a file.
class Progress {
 public:
  Progress(int steps, std::int64_t characters_per_step);

  /// Called after each step; `step` counts from 1.
  void step(int step, double loss);
  double seconds() const;
  double characters_per_second(int step) const;

 private:
  using Clock = std::chrono::steady_clock;

  int steps_;
  std::int64_t characters_per_step_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = start_;
  double loss_sum_ = 0.0;  // since the last line
  int loss_count_ = 0;
};

}  // namespace charlm
