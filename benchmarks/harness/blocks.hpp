// Blocks: short runs of one kind of operation, so that two kinds can be compared within a
// millisecond of each other, before the machine has changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "benchmarks/harness/flags.hpp"

namespace weft::bench {

/// `operations` times the operation that the benchmark knows as `variant`.
struct Block {
  std::uint32_t variant = 0;
  std::uint32_t operations = 0;
};

/// Runs a block; on the leader, the microseconds that one operation took.
using RunBlock = std::function<double(Block)>;

/// How long to measure.
struct Pace {
  std::chrono::microseconds block{800};  ///< a block takes about this, or one operation
  std::chrono::microseconds budget{100'000};
  unsigned least_rounds = 3;  ///< even if that exceeds the budget
};

/// Processes that run the same blocks in the same order. The leader decides; the followers learn of
/// each block by a bare flag.
class Conductor {
 public:
  /// `theirs`: the leader's followers, or a follower's leader. The areas are zero at first and
  /// outlive the conductor. `idle` is for waits between blocks.
  Conductor(FlagArea& mine, Partners theirs, Idle idle = kYield) noexcept
      : mine_(mine), theirs_(std::move(theirs)), idle_(idle) {}
  Conductor(FlagArea& mine, const FlagArea& theirs, Idle idle = kYield)
      : Conductor(mine, Partners{&theirs}, idle) {}

  /// Leader: runs the variants of `round` one block each, over and over. The samples of round[i]
  /// are element i, in the order of time.
  std::vector<std::vector<double>> lead(std::span<const std::uint32_t> round, const Pace& pace,
                                        const RunBlock& run);
  /// Follower: runs what the leader asks for, until lead() ends.
  void follow(const RunBlock& run);

 private:
  double run_one(Block block, const RunBlock& run);
  std::uint32_t operations_for(std::uint32_t variant, const Pace& pace, const RunBlock& run);
  void announce(Block block) noexcept;

  FlagArea& mine_;
  Partners theirs_;
  Idle idle_;
  std::uint64_t blocks_ = 0;
};

}  // namespace weft::bench
