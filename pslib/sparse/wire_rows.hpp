// Rows of a sparse table in requests and answers.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/kernels/combine.hpp"
#include "weft/tensor.hpp"

namespace weft::pslib {

/// Contiguous rows of `dim` elements of the table's wire type; any alignment. Immutable.
class WireRows {
 public:
  WireRows(std::size_t dim, DType wire) noexcept : dim_(dim), wire_(wire) {}

  /// Size of `rows` rows.
  std::size_t bytes(std::size_t rows) const noexcept { return rows * dim_ * size_of(wire_); }
  /// True if the rows can be used in place.
  bool are_f32() const noexcept { return wire_ == DType::f32; }

  /// Converts `rows` rows from f32, rounding to nearest even; values too large for the type become
  /// infinite.
  void write(std::byte* to, const float* from, std::size_t rows) const noexcept {
    if (are_f32())
      std::memcpy(to, from, bytes(rows));
    else
      weft::kernels::narrow(to, wire_, from, rows * dim_);
  }
  /// Converts rows back to f32, exactly.
  void read(float* to, const std::byte* from, std::size_t rows) const noexcept {
    if (are_f32())
      std::memcpy(to, from, bytes(rows));
    else
      weft::kernels::widen(to, from, wire_, rows * dim_);
  }

 private:
  std::size_t dim_;
  DType wire_;
};

}  // namespace weft::pslib
