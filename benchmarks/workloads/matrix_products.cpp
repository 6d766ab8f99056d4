#include "benchmarks/workloads/matrix_products.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace weft::bench {
namespace {

constexpr Eigen::Index kSide = 256;
constexpr double kOfARow = kSide * kSide;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

MatrixProducts::MatrixProducts()
    : left_(kSide * kSide, 0.5F), right_(kSide * kSide, 0.25F), product_(kSide * kSide) {}

void MatrixProducts::multiply(double multiplications) {
  owed_ += multiplications;
  const Eigen::Map<const Matrix> left(left_.data(), kSide, kSide);
  const Eigen::Map<const Matrix> right(right_.data(), kSide, kSide);
  Eigen::Map<Matrix> product(product_.data(), kSide, kSide);
  while (owed_ >= kOfARow) {
    const Eigen::Index rows =
        std::min(kSide, static_cast<Eigen::Index>(std::min(owed_, kOfARow * kSide) / kOfARow));
    product.topRows(rows).noalias() = left.topRows(rows) * right;
    owed_ -= static_cast<double>(rows) * kOfARow;
    done_ += static_cast<double>(rows) * kOfARow;
  }
}

}  // namespace weft::bench
