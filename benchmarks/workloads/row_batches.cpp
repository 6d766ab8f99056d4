#include "benchmarks/workloads/row_batches.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace weft::bench {
namespace {

// Draws popularity ranks by the approximation of Gray et al.
class Zipf {
 public:
  std::uint64_t draw(std::mt19937_64& random) const {
    const double u = std::uniform_real_distribution<double>()(random);
    const double uz = u * sum_;
    if (uz < 1.0) return 0;
    if (uz < 1.0 + std::pow(0.5, kExponent)) return 1;
    const auto rank = static_cast<std::uint64_t>(static_cast<double>(kTableRows) *
                                                 std::pow(eta_ * u - eta_ + 1.0, alpha_));
    return std::min(rank, kTableRows - 1);
  }

 private:
  static constexpr double kExponent = 0.99;

  static double zeta(std::uint64_t count) {
    double sum = 0;
    for (std::uint64_t i = 1; i <= count; ++i) sum += std::pow(static_cast<double>(i), -kExponent);
    return sum;
  }

  const double sum_ = zeta(kTableRows);
  const double alpha_ = 1.0 / (1.0 - kExponent);
  const double eta_ = (1.0 - std::pow(2.0 / static_cast<double>(kTableRows), 1.0 - kExponent)) /
                      (1.0 - zeta(2) / sum_);
};

}  // namespace

RowBatches::RowBatches(std::size_t rows_of_a_batch)
    : size_(rows_of_a_batch), gradients_(rows_of_a_batch * kRowElements, 1.0F) {
  std::mt19937_64 random(10);
  const Zipf zipf;
  // A bijection of the rows, so that popular rows are not neighbours.
  constexpr std::uint64_t kStride = 7'368'787;
  for (std::size_t i = 0; i < kBatches * size_; ++i) {
    const std::uint64_t row = zipf.draw(random) * kStride % kTableRows;
    rows_.push_back(static_cast<std::uint32_t>(row));
    ids_.push_back(row_id(row));
  }
}

void ExpectedRows::push(std::span<const std::uint32_t> rows) {
  for (const std::uint32_t row : rows) ++pushes_[row];
}

bool ExpectedRows::match(std::span<const std::uint32_t> rows, const float* values) const noexcept {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; k < kRowElements; ++k)
      if (values[i * kRowElements + k] != -static_cast<float>(pushes_[rows[i]])) return false;
  return true;
}

}  // namespace weft::bench
