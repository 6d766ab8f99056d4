// The lines that tell a user how the training goes.
#pragma once

#include <chrono>
#include <cstdint>

namespace charlm {

/// Prints a line to stdout about sixteen times in a run and at least every five seconds. Lines, not
/// one line rewritten: mpirun gives ranks a terminal even when its own output goes to a file.
/// Thread-safety: one thread at a time.
class Progress {
 public:
  Progress(int steps, std::int64_t characters_per_step);

  /// After each step, the first is 1.
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
