#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace images {
namespace {

// Guessing has a loss of ln 10 = 2.30.
constexpr double kLearnedLoss = 1.0;
constexpr int kShown = 25;

}  // namespace

Progress::Progress(const Options& options, bool is_shown)
    : options_(options),
      is_shown_(is_shown),
      steps_(options.steps > 0 ? options.steps : Options::kDefaultSteps),
      last_(std::max(1, steps_ / 6)) {
  if (!is_shown || options.losses.empty()) return;
  file_.open(options.losses);
  if (!file_) throw DataError(fmt::format("{}: can't be written", options.losses));
}

void Progress::take(int step, double loss) {
  recent_ += (loss - recent_) / ++recent_steps_;
  if (step > steps_ - last_) final_loss_ += (loss - final_loss_) / ++final_steps_;
  if (file_.is_open()) file_ << fmt::format("{} {:.9g}\n", step, loss) << std::flush;
  if (step % kShown != 0) return;
  if (is_shown_) fmt::print("step {:>5}/{}  loss {:.4f}\n", step, steps_, recent_);
  recent_ = 0.0;
  recent_steps_ = 0;
}

bool Progress::has_learned() const noexcept {
  return options_.steps > 0 || final_loss_ < kLearnedLoss;
}

}  // namespace images
