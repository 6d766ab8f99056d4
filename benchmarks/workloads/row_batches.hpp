// The rows of a large table that each step requests: the same for weft, the limit and the peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mix64.hpp"

namespace weft::bench {

/// The table of ps_sparse.
inline constexpr std::uint64_t kTableRows = 10'000'000;
inline constexpr std::size_t kRowElements = 16;
inline constexpr std::size_t kRowBytes = kRowElements * sizeof(float);

/// The 64-bit id of `row`, from 0 to kTableRows - 1.
constexpr std::uint64_t row_id(std::uint64_t row) noexcept { return row * kGolden64; }

/// Batches of rows drawn from Zipf's law with exponent 0.99 (YCSB's; Gray et al. 1994), so some
/// rows occur often; popular rows are spread over the table. Drawn once and used repeatedly.
class RowBatches {
 public:
  static constexpr std::size_t kBatches = 64;

  explicit RowBatches(std::size_t rows_of_a_batch);

  std::size_t size() const noexcept { return size_; }
  std::span<const std::uint32_t> rows(std::uint64_t step) const noexcept {
    return std::span(rows_).subspan(step % kBatches * size_, size_);
  }
  std::span<const std::uint64_t> ids(std::uint64_t step) const noexcept {
    return std::span(ids_).subspan(step % kBatches * size_, size_);
  }
  /// A batch's gradients, all 1: each element of a row is then minus the number of its pushes.
  std::span<const float> gradients() const noexcept { return gradients_; }

 private:
  std::size_t size_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint64_t> ids_;
  std::vector<float> gradients_;
};

/// For -c: counts the pushes of each row, and so the expected answer of a step.
class ExpectedRows {
 public:
  void push(std::span<const std::uint32_t> rows);
  bool match(std::span<const std::uint32_t> rows, const float* values) const noexcept;

 private:
  std::vector<std::uint32_t> pushes_ = std::vector<std::uint32_t>(kTableRows);
};

}  // namespace weft::bench
