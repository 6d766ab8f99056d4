// Which pieces of the text are looked at in a step, and by which rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace charlm {

/// The part of a step's work that is one rank's. Both arrays are [length][sequences], so that one
/// time step's tokens lie together; targets[t] is the character that follows inputs[t].
struct Batch {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

/// Every step draws `global_batch` windows of the text. Window i of step s is a function of
/// (seed, s, i) alone, and rank r of n takes the r-th of n equal runs of windows: the ranks
/// together always see the same windows, however many they are. Thread-safety: const members only.
class Batches {
 public:
  /// `tokens` must outlive this, hold more than `length` tokens, and `ranks` divide `global_batch`.
  Batches(std::span<const std::int32_t> tokens, int length, int global_batch, int rank, int ranks,
          std::uint64_t seed);

  /// Windows per rank.
  int sequences() const noexcept { return sequences_; }
  /// This rank's part of the step; allocates only the first time that `out` is used.
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
