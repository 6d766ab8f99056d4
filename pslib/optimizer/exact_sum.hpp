// A sum of squares whose bits do not depend on the order or partition of the additions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::pslib {

/// Exact sum of f64 values that are 0 or between 2^-330 and 2^288: squares of f32, and sums of a
/// few of them. Adding a value that is not finite makes the sum NaN permanently. Trivially
/// copyable, so it can be sent. At most 2^30 values may be added between two calls of carry().
class ExactSum {
 public:
  static constexpr std::size_t kWords = 23;

  void add(double value) noexcept;
  /// Requires both sums to be carried.
  void add(const ExactSum& other) noexcept;
  /// True if this may be another rank's carried sum; add no others.
  bool is_plausible() const noexcept;
  /// Normalizes the words.
  void carry() noexcept;
  /// The sum rounded to f64. Requires carry().
  double value() const noexcept;

 private:
  static constexpr int kLeastExponent = -384;
  static constexpr int kBits = 32;
  // Word i counts units of 2^(-384 + 32 i), 32 bits each; the last word counts values that were not
  // finite.
  std::array<std::int64_t, kWords> words_{};
};

/// Adds the squares of the elements in f64, in lines of 16 with a fixed summation tree; a shorter
/// last line is padded with zeros.
void add_squares(ExactSum& sum, std::span<const float> elements) noexcept;

}  // namespace weft::pslib
