// Compresses a worker's gradients into pushes and keeps the residual.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "pslib/compression/push_format.hpp"
#include "weft/tensor.hpp"

namespace weft::pslib {

/// Keeps one f32 per element: the part that pushes have not sent yet (error feedback), initially 0.
/// Not thread-safe.
class Compressor {
 public:
  /// `format`, and the `specs` it was made from, must outlive this object; `table` is for errors.
  /// Throws std::bad_alloc.
  Compressor(const PushFormat& format, std::span<const TensorSpec> specs, std::string table);

  /// Fills `push` from flat gradients of the table's wire type plus the residual. Allocates
  /// nothing. Returns bad_argument, naming the element, if a value is not finite; nothing has
  /// changed then.
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
  std::vector<float> widened_;                   // scratch: a block of 16-bit gradients
  CompressionStatistics statistics_;
};

}  // namespace weft::pslib
