// Blocks: short runs of one kind of operation. Alternating blocks compare two kinds within about a
// millisecond, before the state of the machine changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "benchmarks/harness/flags.hpp"

namespace weft::bench {

/// `operations` repetitions of the operation that the benchmark numbers `variant`.
struct Block {
  std::uint32_t variant = 0;
  std::uint32_t operations = 0;
};

/// Runs a block. On the leader, returns the microseconds per operation.
using RunBlock = std::function<double(Block)>;

/// Length of a measurement.
struct Pace {
  std::chrono::microseconds block{800};  ///< length of a block, or one operation if that is longer
  std::chrono::microseconds budget{100'000};
  unsigned least_rounds = 3;  ///< measured even if that exceeds the budget
};

/// Runs the same blocks in the same order on several processes. The leader chooses each block and
/// announces it to the followers by a bare flag.
class Conductor {
 public:
  /// `theirs` are the leader's followers, or a follower's leader. The areas must be zero at first
  /// and outlive the conductor. `idle` is used in waits between blocks.
  Conductor(FlagArea& mine, Partners theirs, Idle idle = kYield) noexcept
      : mine_(mine), theirs_(std::move(theirs)), idle_(idle) {}
  Conductor(FlagArea& mine, const FlagArea& theirs, Idle idle = kYield)
      : Conductor(mine, Partners{&theirs}, idle) {}

  /// Leader: runs one block of each variant in `round`, repeatedly. Element i of the result has the
  /// samples of round[i] in the order of time.
  std::vector<std::vector<double>> lead(std::span<const std::uint32_t> round, const Pace& pace,
                                        const RunBlock& run);
  /// Follower: runs the blocks that the leader announces, until lead() ends.
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
