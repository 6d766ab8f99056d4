// The losses of a run, as they are printed, written and judged.
#pragma once

#include <fstream>

#include "options.hpp"

namespace images {

class Progress {
 public:
  /// `is_shown`: this rank prints and writes. Throws DataError if the file can't be made.
  Progress(const Options& options, bool is_shown);

  int steps() const noexcept { return steps_; }
  /// Takes the loss of a step, from 1 on, or a later one if the run goes on from there.
  void take(int step, double loss);
  /// Mean loss of the last steps.
  double final_loss() const noexcept { return final_loss_; }
  bool has_learned() const noexcept;

 private:
  const Options& options_;
  const bool is_shown_;
  const int steps_;
  const int last_;  ///< steps that final_loss() is about
  double recent_ = 0.0;
  int recent_steps_ = 0;
  double final_loss_ = 0.0;
  int final_steps_ = 0;
  std::ofstream file_;
};

}  // namespace images
