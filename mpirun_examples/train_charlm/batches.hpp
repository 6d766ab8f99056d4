// Batches: the windows of the text that each rank trains on in a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace charlm {

/// One rank's share of a step. Both arrays are [length][sequences], so that the tokens of one time
/// step are adjacent; targets[t] is the character that follows inputs[t].
struct Batch {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

/// Every step draws `global_batch` windows of the text. Window i of step s is a function of (seed,
/// s, i) alone, and rank r of n takes the r-th of n equal runs of windows: the job sees the same
/// windows whatever its number of ranks. Thread-safety: const members only.
class Batches {
 public:
  /// `tokens` must outlive this object and hold more than `length` tokens; `ranks` must divide
  /// `global_batch`.
  Batches(std::span<const std::int32_t> tokens, int length, int global_batch, int rank, int ranks,
          std::uint64_t seed);

  /// Windows per rank.
  int sequences() const noexcept { return sequences_; }
  /// Fills `out` with this rank's share of the step. Allocates only at the first use of `out`.
  void fill(std::uint64_t step, Batch& out) const;

 private:
  std::size_t window(std::uint64_t step, int index) const noexcept;

  std::span<const std::int32_t> tokens_;
  int length_;
  int sequences_;
  int first_;
  std::uint64_t seed_;
};

}  // namespace charlm
