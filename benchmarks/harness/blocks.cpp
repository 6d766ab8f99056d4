#include "benchmarks/harness/blocks.hpp"

#include <algorithm>
#include <map>

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kMostOperations = 100'000;

}  // namespace

std::vector<std::vector<double>> Conductor::lead(std::span<const std::uint32_t> round,
                                                 const Pace& pace, const RunBlock& run) {
  std::map<std::uint32_t, std::uint32_t> operations;
  for (const std::uint32_t variant : round)
    if (!operations.contains(variant)) operations[variant] = operations_for(variant, pace, run);

  std::vector<std::vector<double>> samples(round.size());
  const auto end = Clock::now() + pace.budget;
  for (unsigned rounds = 0; rounds < pace.least_rounds || Clock::now() < end; ++rounds)
    for (std::size_t i = 0; i < round.size(); ++i)
      samples[i].push_back(run_one({round[i], operations[round[i]]}, run));
  announce({});
  return samples;
}

void Conductor::follow(const RunBlock& run) {
  while (true) {
    const FlagLine& asked = theirs_.front()->block;
    await(asked, ++blocks_, idle_);
    const Block block{static_cast<std::uint32_t>(asked.payload[0]),
                      static_cast<std::uint32_t>(asked.payload[1])};
    raise_to(mine_.block, blocks_);
    if (block.operations == 0) return;
    run(block);
  }
}

double Conductor::run_one(Block block, const RunBlock& run) {
  announce(block);
  return run(block);
}

// Grows the block until it is long enough to compute the number of operations. The measurement is
// discarded, so it also serves as the warm-up.
std::uint32_t Conductor::operations_for(std::uint32_t variant, const Pace& pace,
                                        const RunBlock& run) {
  run_one({variant, 1}, run);
  for (std::uint32_t operations = 1;; operations *= 4) {
    // Use the block's own time: the clock here would include the time in which the followers notice
    // it.
    const double spent = run_one({variant, operations}, run) * operations /
                         std::chrono::duration<double, std::micro>(pace.block).count();
    if (spent < 0.25 && operations < kMostOperations) continue;
    const double fitting = static_cast<double>(operations) / spent;
    return static_cast<std::uint32_t>(std::clamp<double>(fitting, 1, kMostOperations));
  }
}

// Every follower acknowledges a block before the next one overwrites it.
void Conductor::announce(Block block) noexcept {
  await_all(theirs_, &FlagArea::block, blocks_, idle_);
  mine_.block.payload[0] = block.variant;
  mine_.block.payload[1] = block.operations;
  raise_to(mine_.block, ++blocks_);
}

}  // namespace weft::bench
