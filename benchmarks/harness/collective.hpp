// One collective, timed alike for weft, the limit and the peers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "benchmarks/harness/blocks.hpp"
#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

/// Kind of row: the element type.
inline constexpr std::string_view kF32 = "f32";

/// Up to this size, timed operations run back to back with the input rewritten in between, and the
/// mean counts: reading the clock twice would cost more than the operation.
inline constexpr std::size_t kBackToBack = 4096;

/// Elements of a rank's tensors. A benchmark's size is that of the larger one.
struct CollectiveShape {
  std::size_t in = 0;
  std::size_t out = 0;
};
constexpr CollectiveShape shape_of(std::string_view name, std::size_t elements, int ranks) {
  const std::size_t part = elements / static_cast<std::size_t>(ranks);
  const std::size_t whole = part * static_cast<std::size_t>(ranks);
  if (name == kAllGather) return {part, whole};
  if (name == kReduceScatter) return {whole, part};
  if (name == kAllToAll) return {whole, whole};
  if (name == kBarrier) return {0, 0};
  return {elements, elements};
}

/// The steps of one timed operation, synchronized by bare flags that all ranks see: all ranks
/// rewrite their input, rank 0 starts the clock and gives the start signal, all ranks run the
/// operation and report completion, and the clock stops with the last report.
class CollectiveSteps {
 public:
  CollectiveSteps(FlagArea& mine, Partners theirs, bool leads, Idle idle)
      : mine_(mine), theirs_(std::move(theirs)), leads_(leads), idle_(idle) {}

  /// Returns the microseconds per operation on rank 0.
  template <typename Rewrite, typename Run, typename Check>
  double run(std::uint32_t operations, bool back_to_back, Rewrite&& rewrite, Run&& act,
             Check&& check) {
    using Clock = std::chrono::steady_clock;
    std::chrono::duration<double, std::micro> spent{0};
    const std::uint32_t at_once = back_to_back ? operations : 1;
    for (std::uint32_t done = 0; done < operations; done += at_once) {
      if (!back_to_back) rewrite();
      meet();
      const auto start = Clock::now();
      for (std::uint32_t i = 0; i < at_once; ++i) {
        if (back_to_back) rewrite();
        act();
      }
      all_through();
      spent += Clock::now() - start;
      check();
    }
    return spent.count() / operations;
  }

 private:
  void meet() {
    ++number_;
    if (leads_) {
      await_all(theirs_, &FlagArea::ready, number_, idle_);
      raise_to(mine_.filled, number_);
    } else {
      raise_to(mine_.ready, number_);
      await_all(theirs_, &FlagArea::filled, number_, idle_);
    }
  }
  void all_through() {
    if (leads_)
      await_all(theirs_, &FlagArea::acknowledged, number_, idle_);
    else
      raise_to(mine_.acknowledged, number_);
  }

  FlagArea& mine_;
  Partners theirs_;
  const bool leads_;
  Idle idle_;
  std::uint64_t number_ = 0;
};

/// A rank's input in turn `turn` of an operation: whole numbers whose sums every type represents
/// exactly.
inline float collective_value(int rank, std::uint64_t turn) noexcept {
  return static_cast<float>(1 + (static_cast<std::uint64_t>(rank) + turn) % 3);
}

/// True if `out` is the collective's result for all ranks' inputs of `turn`. Each part of an input
/// has a single value.
inline bool collective_right(std::string_view name, std::span<const float> out,
                             const CollectiveShape& shape, std::uint64_t turn, int ranks) {
  const auto holds = [&](std::size_t first, std::size_t count, float value) {
    const auto part = out.subspan(first, count);
    return std::all_of(part.begin(), part.end(), [value](float x) { return x == value; });
  };
  if (name == kBarrier) return true;
  if (name == kBroadcast) return holds(0, shape.in, collective_value(0, turn));
  if (name == kAllGather || name == kAllToAll) {
    const std::size_t part = shape.out / static_cast<std::size_t>(ranks);
    for (int r = 0; r < ranks; ++r)
      if (!holds(static_cast<std::size_t>(r) * part, part, collective_value(r, turn))) return false;
    return true;
  }
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += collective_value(r, turn);
  return holds(0, shape.out, sum);
}

}  // namespace weft::bench
