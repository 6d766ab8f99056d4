// A worker's gradients on their way into a push, and what pushes leave behind.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "pslib/compression/push_format.hpp"
#include "weft/tensor.hpp"

namespace weft::pslib {

/// Keeps an f32 for each element: what is yet to be sent of it. It starts as zeros.
/// Thread-safety: one thread at a time.
class Compressor {
 public:
  /// `format` and `specs`, from which it was made, must outlive it; `table` is for errors. Throws
  /// std::bad_alloc.
  Compressor(const PushFormat& format, std::span<const TensorSpec> specs, std::string table);

  /// Fills a push from flat gradients, of the table's wire type, and
  /// from what former pushes have left. Allocates nothing. bad_argument for a value that is not
  /// finite, which names it; nothing has changed then.
  Status compress(const Tensor& gradients, std::byte* push) noexcept;

  const CompressionStatistics& statistics() const noexcept { return statistics_; }

 private:
  Status check(const std::byte* gradients) noexcept;
  double quantise(std::size_t tensor, const std::byte* gradients, std::byte* push) noexcept;
  double select(std::size_t tensor, const std::byte* gradients, std::byte* push) noexcept;
  template <typename Act>
  void for_each_block(std::size_t tensor, const std::byte* gradients, const Act& act) noexcept;
  Status refuse_value(std::size_t tensor, std::size_t element, float value) const noexcept;

  const PushFormat& format_;
  const std::span<const TensorSpec> specs_;
  const std::string table_;
  hwy::AlignedFreeUniquePtr<float[]> residual_;  // laid out as the gradients
  std::vector<float> widened_;                   // a block of 16-bit gradients
  CompressionStatistics statistics_;
};

}  // namespace weft::pslib
