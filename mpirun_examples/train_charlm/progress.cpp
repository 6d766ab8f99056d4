#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace charlm {

Progress::Progress(int steps, std::int64_t characters_per_step)
    : steps_(steps), characters_per_step_(characters_per_step) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

double Progress::characters_per_second(int step) const {
  return static_cast<double>(step) * static_cast<double>(characters_per_step_) /
         std::max(seconds(), 1e-9);
}

void Progress::step(int step, double loss) {
  constexpr int kLines = 16;
  constexpr int kBar = 20;
  loss_sum_ += loss;
  ++loss_count_;
  const int every = (steps_ + kLines - 1) / kLines;
  const Clock::time_point now = Clock::now();
  if (step != 1 && step != steps_ && step % every != 0 &&
      now - last_line_ < std::chrono::seconds(5))
    return;
  const double done = static_cast<double>(step) / steps_;
  const auto filled = static_cast<std::size_t>(done * kBar);
  const std::string bar = std::string(filled, '#') + std::string(kBar - filled, '.');
  fmt::print(
      "step {:>6}/{}  [{}] {:>3.0f} %  loss {:.4f}  {:>7.0f} characters/s  {:>4.0f} s left\n", step,
      steps_, bar, 100 * done, loss_sum_ / loss_count_, characters_per_second(step),
      seconds() / step * (steps_ - step));
  std::fflush(stdout);
  last_line_ = now;
  loss_sum_ = 0.0;
  loss_count_ = 0;
}

}  // namespace charlm
