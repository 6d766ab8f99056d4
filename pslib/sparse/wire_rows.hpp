// Rows of a sparse table as requests and answers carry them.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/kernels/combine.hpp"
#include "weft/tensor.hpp"

namespace weft::pslib {

/// Rows of `dim` elements of the table's wire type, one behind the other; any alignment. Immutable.
class WireRows {
 public:
  WireRows(std::size_t dim, DType wire) noexcept : dim_(dim), wire_(wire) {}

  /// Of so many rows.
  std::size_t bytes(std::size_t rows) const noexcept { return rows * dim_ * size_of(wire_); }
  /// Whether they can be used where they lie.
  bool are_f32() const noexcept { return wire_ == DType::f32; }

  /// `rows` rows of f32, each element rounded once to nearest even; what is too large for the type
  /// becomes infinite.
  void write(std::byte* to, const float* from, std::size_t rows) const noexcept {
    if (are_f32())
      std::memcpy(to, from, bytes(rows));
    else
      weft::kernels::narrow(to, wire_, from, rows * dim_);
  }
  /// The same back, exactly.
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
