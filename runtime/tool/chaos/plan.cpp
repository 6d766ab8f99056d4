#include "runtime/tool/chaos/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

namespace weft::tool {
namespace {

/// Own distributions, because those of the standard library differ between implementations and a
/// plan must not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
  /// A multiple of 0.001, so that the printed plan is exactly what is executed.
  double between(double least, double most) {
    const auto steps = static_cast<std::uint64_t>(std::max(0.0, most - least) * 1000);
    return least + static_cast<double>(steps == 0 ? 0 : engine_() % (steps + 1)) / 1000;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace

std::string_view name(Fault fault) noexcept {
  constexpr std::array<std::string_view, 4> names{"kill", "stop", "slow", "cut"};
  return names[static_cast<std::size_t>(fault)];
}

std::vector<Step> make_plan(const PlanOptions& options) {
  Dice dice(options.seed);
  std::vector<int> ranks = options.ranks;
  if (ranks.empty())
    for (int rank = 0; rank < options.size; ++rank) ranks.push_back(rank);
  std::vector<Step> plan;
  std::set<int> killed;
  for (int n = 0; n < options.count; ++n) {
    Step step;
    step.at_s = dice.between(options.after_s, options.within_s);
    step.fault = options.faults[dice.below(options.faults.size())];
    step.rank = ranks[dice.below(ranks.size())];
    step.for_s = options.for_s > 0 ? options.for_s : dice.between(0.5, 3);
    if (step.fault == Fault::kill) {
      step.for_s = 0;
      if (!killed.insert(step.rank).second) continue;
    }
    plan.push_back(step);
  }
  std::ranges::stable_sort(plan, {}, &Step::at_s);
  return plan;
}

std::string text(const Step& step) {
  const std::string what =
      fmt::format("at {:.3f} s: {} rank {}", step.at_s, name(step.fault), step.rank);
  return step.for_s > 0 ? what + fmt::format(" for {:.3f} s", step.for_s) : what;
}

}  // namespace weft::tool
