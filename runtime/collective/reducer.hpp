// Combines the tensors of many ranks into one.
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

/// Combines sources as one binary tree: the first half (the largest power of two below their
/// number) with the rest. The bits of the result therefore depend only on the sources and their
/// order. Works block by block, so that intermediate values stay in the L1 cache. Not thread-safe.
class Reducer {
 public:
  /// `dtype` must support `op`. `sources`: the largest number of sources of any call.
  Reducer(DType dtype, const ReduceOp& op, int sources);

  using Sources = std::span<const std::byte* const>;
  using Targets = std::span<std::byte* const>;

  /// Writes the same result to every target. A target may be a source. `streamed`: stores bypass
  /// the cache. `count`: elements.
  void combine(Sources sources, Targets targets, std::int64_t count, bool streamed);
  /// Writes to target n the combination of sources 0 to n, from left to right. A null target is
  /// skipped; target n may be source n.
  void combine_up_to(Sources sources, Targets targets, std::int64_t count);

  /// Like combine(), but leaves the result in the type used for arithmetic, neither averaged nor
  /// rounded. `to` holds `count` * wide() bytes and must not overlap a source.
  void combine_partly(Sources sources, std::byte* to, std::int64_t count);
  /// Combines results of combine_partly(), made of `ranks` sources in all. A target may not be a
  /// source.
  void combine_partials(Sources partials, Targets targets, std::int64_t count, std::size_t ranks,
                        bool streamed);

  // For elements that are combined in several places, one pair at a time.
  /// Bytes of an element in the type used for arithmetic.
  std::size_t wide() const noexcept {
    return mean_ ? mean_->wide() : widens_ ? sizeof(float) : element_;
  }
  /// True if the type used for arithmetic differs from the tensors': 16-bit floats, means.
  bool widens() const noexcept { return widens_ || mean_; }
  void widen(std::byte* to, const std::byte* from, std::size_t count);
  /// Combines `a` with `b`, all three in the type used for arithmetic; `to` may be either.
  void join(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
  /// Averages and rounds `sum`, which combines `ranks` sources; `to` may be `sum`.
  void finish(std::byte* to, const std::byte* sum, std::size_t count, std::size_t ranks);

 private:
  const std::byte* tree(Sources sources, std::size_t at, std::size_t count, std::size_t level,
                        bool partials = false);
  /// Returns a source's block in the type used for arithmetic: the source itself, or a widened
  /// copy.
  const std::byte* leaf(const std::byte* source, std::size_t at, std::size_t count,
                        std::size_t level);
  void pair(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
  /// The last step, for a block in scratch memory: divides and rounds in place.
  const std::byte* finish(const std::byte* block, std::size_t count, std::size_t divisor);
  std::byte* scratch(std::size_t level) const noexcept { return scratch_.get() + level * kBlock; }

  static constexpr std::size_t kBlock = 8192;  ///< bytes
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  const DType dtype_;
  const std::size_t element_;
  const ReduceOp op_;
  const bool widens_;                  ///< 16-bit floats that weft combines itself
  std::optional<kernels::Mean> mean_;  ///< set for Reduction::avg
  kernels::Combine combine_;   ///< in the type used for arithmetic; null: the user's function
  kernels::Combine straight_;  ///< of two sources in their own type; null if that is not enough
  kernels::CombineStreamed streamed_;
  std::unique_ptr<std::byte[], Free> scratch_;
};

}  // namespace weft::detail
