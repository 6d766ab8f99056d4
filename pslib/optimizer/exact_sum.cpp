#include "pslib/optimizer/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::pslib {
namespace {

constexpr std::size_t kLine = 16;
constexpr int kMantissaBits = 53;

double line_of_squares(const float* elements) noexcept {
  std::array<double, kLine> squares;
  for (std::size_t i = 0; i < kLine; ++i)
    squares[i] = static_cast<double>(elements[i]) * static_cast<double>(elements[i]);
  for (std::size_t half = kLine / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) squares[i] += squares[i + half];
  return squares[0];
}

}  // namespace

void ExactSum::add(double value) noexcept {
  if (value == 0.0) return;
  if (!std::isfinite(value)) {
    ++words_.back();
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, kMantissaBits));
  const int place = exponent - kMantissaBits - kLeastExponent;
  const auto word = static_cast<std::size_t>(place / kBits);
  const int shift = place % kBits;
  // 53 bits shifted by up to 31 span three words.
  const auto low = (mantissa & 0xffffffffU) << shift;
  const auto high = (mantissa >> kBits) << shift;
  words_[word] += static_cast<std::int64_t>(low & 0xffffffffU);
  words_[word + 1] += static_cast<std::int64_t>((low >> kBits) + (high & 0xffffffffU));
  words_[word + 2] += static_cast<std::int64_t>(high >> kBits);
}

void ExactSum::add(const ExactSum& other) noexcept {
  for (std::size_t i = 0; i < kWords; ++i) words_[i] += other.words_[i];
  carry();
}

void ExactSum::carry() noexcept {
  for (std::size_t i = 0; i + 2 < kWords; ++i) {
    words_[i + 1] += words_[i] >> kBits;
    words_[i] &= 0xffffffff;
  }
}

bool ExactSum::is_plausible() const noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // more elements than any table has
  const auto is_below = [this](std::size_t i, std::int64_t end) {
    return words_[i] >= 0 && words_[i] < end;
  };
  for (std::size_t i = 0; i + 2 < kWords; ++i)
    if (!is_below(i, std::int64_t{1} << kBits)) return false;
  return is_below(kWords - 2, kMost) && is_below(kWords - 1, kMost);
}

double ExactSum::value() const noexcept {
  if (words_.back() != 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < kWords; ++i)
    sum += std::ldexp(static_cast<double>(words_[i]), kLeastExponent + kBits * static_cast<int>(i));
  return sum;
}

void add_squares(ExactSum& sum, std::span<const float> elements) noexcept {
  std::size_t at = 0;
  for (; at + kLine <= elements.size(); at += kLine) sum.add(line_of_squares(elements.data() + at));
  if (at == elements.size()) return;
  std::array<float, kLine> last{};
  std::copy(elements.begin() + static_cast<std::ptrdiff_t>(at), elements.end(), last.begin());
  sum.add(line_of_squares(last.data()));
}

}  // namespace weft::pslib
