// The mean of many arrays, element by element: the arithmetic of averages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/kernels/combine.hpp"
#include "weft/tensor.hpp"

namespace weft::kernels {

/// How the mean of elements of one type is calculated. Integers are summed in a type that holds
/// any sum of theirs. Floats are summed in f32 or f64, each multiplied before by a power of two
/// that is no more than 1 / `ranks`: the sum then overflows only where the mean does, and rounds
/// as the plain sum does. Only what lies below the smallest normal number times `ranks` may lose
/// its last bits.
class Mean {
 public:
  /// `ranks`: the most elements that are summed. Not for booleans.
  Mean(DType dtype, int ranks) noexcept;

  /// Bytes of an element that is summed.
  std::size_t wide() const noexcept { return wide_; }
  /// Adds what load() has made.
  Combine add() const noexcept { return add_; }
  /// `count` elements as they are summed. Any alignment; must not overlap.
  void load(std::byte* to, const std::byte* from, std::size_t count) const noexcept;
  /// In place: sums of `divisor` elements each become their means, elements of the type, from
  /// `data` on. Integers are rounded towards zero.
  void finish(std::byte* data, std::size_t count, std::int64_t divisor) const noexcept;

 private:
  DType dtype_;
  double scale_;
  std::size_t wide_;
  Combine add_;
};

}  // namespace weft::kernels
