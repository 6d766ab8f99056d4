// Tensors of many ranks combined into one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/kernels/combine.hpp"
#include "base/kernels/mean.hpp"
#include "weft/collective.hpp"

namespace weft::detail {

/// Combines sources as one binary tree: the lower half (the largest power of two below their
/// number) with the rest. So the bits depend on the sources and their order alone. Works block by
/// block, so that what lies between stays in the nearest cache. One thread at a time.
class Reducer {
 public:
  /// Requires that the dtype can be combined so. `sources` is the most there will be.
  Reducer(DType dtype, const ReduceOp& op, int sources);

  using Sources = std::span<const std::byte* const>;
  using Targets = std::span<std::byte* const>;

  /// Into every target the same. A target may be a source. `streamed`: past the cache.
  void combine(Sources sources, Targets targets, std::int64_t count, bool streamed);
  /// Into the n-th target the sources up to the n-th, from left to right; target n may be source n.
  void combine_up_to(Sources sources, Targets targets, std::int64_t count);

  /// As combine(), but not averaged and not rounded: what is calculated with, into memory that is
  /// none of the sources.
  void combine_partly(Sources sources, std::byte* to, std::int64_t count);
  /// Of what combine_partly() has made, `ranks` sources in all. A target may not be a source.
  void combine_partials(Sources partials, Targets targets, std::int64_t count, std::size_t ranks,
                        bool streamed);

  // Of elements that are combined bit by bit, in several places.
  /// Bytes of an element that is calculated with.
  std::size_t wide() const noexcept {
    return mean_ ? mean_->wide() : widens_ ? sizeof(float) : element_;
  }
  /// Whether what is calculated with is not the elements themselves: 16-bit floats, means.
  bool widens() const noexcept { return widens_ || mean_; }
  void widen(std::byte* to, const std::byte* from, std::size_t count);
  /// `a` combined with `b`, all as they are calculated with; `to` may be either.
  void join(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
  /// The result of `ranks` elements each; `to` may be `sum`.
  void finish(std::byte* to, const std::byte* sum, std::size_t count, std::size_t ranks);

 private:
  const std::byte* tree(Sources sources, std::size_t at, std::size_t count, std::size_t level,
                        bool partials = false);
  /// A source's block as what is calculated with: itself, or widened.
  const std::byte* leaf(const std::byte* source, std::size_t at, std::size_t count,
                        std::size_t level);
  void pair(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
  /// The last step, for a block that is in scratch: divide, and round.
  const std::byte* finish(const std::byte* block, std::size_t count, std::size_t divisor);
  std::byte* scratch(std::size_t level) const noexcept { return scratch_.get() + level * kBlock; }

  static constexpr std::size_t kBlock = 8192;  ///< bytes
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  const DType dtype_;
  const std::size_t element_;
  const ReduceOp op_;
  const bool widens_;                  ///< 16-bit floats that weft combines
  std::optional<kernels::Mean> mean_;  ///< of Reduction::avg
  kernels::Combine combine_;           ///< of what is calculated with; null: the user's function
  kernels::Combine straight_;          ///< of two sources as they are; null where that isn't all
  kernels::CombineStreamed streamed_;
  std::unique_ptr<std::byte[], Free> scratch_;
};

}  // namespace weft::detail
