// The arithmetic of averages: the element-wise mean of many arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/kernels/combine.hpp"
#include "weft/tensor.hpp"

namespace weft::kernels {

/// The mean of elements of one type. Integers are summed in a type that holds any such sum. Floats
/// are summed in f32 or f64 after multiplication by a power of two that is at most 1 / `ranks`: the
/// sum then overflows only if the mean does, and rounds as the plain sum does. Only elements below
/// `ranks` times the smallest normal number may lose their last bits.
class Mean {
 public:
  /// `ranks`: the largest number of elements summed. `dtype` must not be boolean.
  Mean(DType dtype, int ranks) noexcept;

  /// Bytes per element of a sum.
  std::size_t wide() const noexcept { return wide_; }
  /// The function that adds arrays made by load().
  Combine add() const noexcept { return add_; }
  /// Converts `count` elements to the type of sums. Any alignment; the arrays must not overlap.
  void load(std::byte* to, const std::byte* from, std::size_t count) const noexcept;
  /// In place: turns `count` sums, each of `divisor` elements, into means of the original type,
  /// packed from `data` on. Integers are rounded towards zero.
  void finish(std::byte* data, std::size_t count, std::int64_t divisor) const noexcept;

 private:
  DType dtype_;
  double scale_;
  std::size_t wide_;
  Combine add_;
};

}  // namespace weft::kernels
