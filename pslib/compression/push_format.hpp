// What a worker's push of a dense table looks like in its slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/pslib.hpp"

namespace weft::pslib {

// Compressed, on cache lines of their own, all little-endian. "Laid out" means at the offsets that
// the format was made with:
//   int8    a code (i8) for each element, tensors laid out; then the scales (f32),
//           tensor after tensor, of each one for every kQuantumBlock elements from its first on
//   top_k   for each tensor the places of k elements (u32, ascending), then their values (f32)
// Where a tensor is cut does not matter: a block begins with its tensor, not with a shard's run.

/// A pure function of the table's tensors and options, the same on every rank. Immutable.
class PushFormat {
 public:
  /// The gradients of tensor i lie from element `offsets[i]` on in a flat buffer of `elements`.
  PushFormat(std::span<const TensorSpec> specs, std::span<const std::int64_t> offsets,
             std::int64_t elements, const TableOptions& options);

  bool is_compressed() const noexcept { return compression_.kind != Compression::Kind::none; }
  /// Of a push.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Of the gradients, as the worker wrote them.
  std::size_t bytes_before() const noexcept { return bytes_before_; }
  Compression::Kind kind() const noexcept { return compression_.kind; }
  /// Elements of the flat gradients, padding included.
  std::size_t elements() const noexcept { return elements_; }
  /// Where a tensor starts in the flat gradients.
  std::size_t offset(std::size_t tensor) const noexcept { return offsets_[tensor]; }
  /// The type of the gradients as the worker wrote them.
  DType wire() const noexcept { return wire_; }

  // Of a compressed push.
  std::size_t codes(std::size_t tensor) const noexcept { return tensors_[tensor].first; }
  std::size_t scales(std::size_t tensor) const noexcept { return tensors_[tensor].second; }
  std::size_t places(std::size_t tensor) const noexcept { return tensors_[tensor].first; }
  std::size_t values(std::size_t tensor) const noexcept { return tensors_[tensor].second; }
  /// Elements of a tensor that are sent.
  std::size_t sent(std::size_t tensor) const noexcept { return tensors_[tensor].sent; }

  /// A compressed push's gradients from element `first` of a tensor on.
  void read(float* to, const std::byte* push, std::size_t tensor, std::int64_t first,
            std::size_t count) const noexcept;

 private:
  struct Tensor {
    std::size_t first = 0;  // bytes from the push's beginning
    std::size_t second = 0;
    std::size_t sent = 0;
  };

  void lay_codes(std::span<const TensorSpec> specs);
  void lay_places(std::span<const TensorSpec> specs);

  const Compression compression_;
  const DType wire_;
  const std::size_t elements_;
  const std::vector<std::size_t> offsets_;
  std::size_t bytes_before_;
  std::size_t bytes_;
  std::vector<Tensor> tensors_;
};

}  // namespace weft::pslib
