// A sum of squares that has the same bits in whatever order, and in however many parts, it is
// taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::pslib {

/// Sums of f64 values that are 0 or between 2^-330 and 2^288: squares of f32, and sums of a few of
/// them. Exact; a value that is not finite makes it NaN for good. Plain words, so that it can
/// travel. Up to 2^30 values may be added between two calls of carry(). A value.
class ExactSum {
 public:
  static constexpr std::size_t kWords = 23;

  void add(double value) noexcept;
  /// Both carried.
  void add(const ExactSum& other) noexcept;
  /// Whether it may be one of another rank's, carried: others are not to be added.
  bool is_plausible() const noexcept;
  /// Brings the words into their one normal form.
  void carry() noexcept;
  /// Carried; rounded.
  double value() const noexcept;

 private:
  static constexpr int kLeastExponent = -384;
  static constexpr int kBits = 32;
  // Each stands for 32 bits from 2^(-384 + 32 i) on; the last counts values that were not finite.
  std::array<std::int64_t, kWords> words_{};
};

/// Adds the squares of the elements, in lines of 16: a line's in a fixed tree, in f64; a shorter
/// last line as if zeros followed.
void add_squares(ExactSum& sum, std::span<const float> elements) noexcept;

}  // namespace weft::pslib
