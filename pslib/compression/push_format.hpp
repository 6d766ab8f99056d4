// The layout of a worker's push of a dense table in its slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pslib/compression/slot_cut.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Elements of a tensor.
struct TensorRange {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// Layout of a compressed push, little-endian, each array on cache lines of its own. "At its offset"
// means the tensor's offset in the flat gradients.
// int8: one code (i8) per element, each tensor at its offset; then the scales (f32), tensor after
// tensor, one per kQuantumBlock elements counted from the tensor's first.
// top_k: for each tensor the indices of k elements (u32, ascending), then their values (f32).
// Blocks are counted from the tensor's start rather than from a shard's run, so cutting a tensor
// does not matter.

/// A pure function of the table's tensors and options, equal on every rank. Immutable.
class PushFormat {
 public:
  /// Tensor i starts at element `offsets[i]` of a flat buffer of `elements` elements.
  PushFormat(std::span<const TensorSpec> specs, std::span<const std::int64_t> offsets,
             std::int64_t elements, const TableOptions& options);

  bool is_compressed() const noexcept { return compression_.kind != Compression::Kind::none; }
  /// Size of a push.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Size of the uncompressed gradients in the wire type.
  std::size_t bytes_before() const noexcept { return bytes_before_; }
  Compression::Kind kind() const noexcept { return compression_.kind; }
  /// Elements of the flat gradients, including padding.
  std::size_t elements() const noexcept { return elements_; }
  /// Start of a tensor in the flat gradients, in elements.
  std::size_t offset(std::size_t tensor) const noexcept { return offsets_[tensor]; }
  /// Type of the gradients that the worker writes.
  DType wire() const noexcept { return wire_; }

  // Compressed pushes only.
  std::size_t codes(std::size_t tensor) const noexcept { return tensors_[tensor].first; }
  std::size_t scales(std::size_t tensor) const noexcept { return tensors_[tensor].second; }
  std::size_t places(std::size_t tensor) const noexcept { return tensors_[tensor].first; }
  std::size_t values(std::size_t tensor) const noexcept { return tensors_[tensor].second; }
  /// Elements sent of a tensor.
  std::size_t sent(std::size_t tensor) const noexcept { return tensors_[tensor].sent; }

  /// Adds what a push has of the ranges, which ascend; if compressed, one for each tensor at most.
  /// `cut` is of the push's slot: of bytes if compressed, else of the wire type.
  void add_to(SlotCut& cut, std::span<const TensorRange> ranges) const;
  /// The format of a view of that cut alone, in which read() finds the ranges.
  PushFormat packed(const SlotCut& cut, std::span<const TensorRange> ranges) const;

  /// Decompresses `count` gradients of a tensor from element `first` on.
  void read(float* to, const std::byte* push, std::size_t tensor, std::int64_t first,
            std::size_t count) const noexcept;

 private:
  struct Tensor {
    std::size_t first = 0;  // byte offset in the push
    std::size_t second = 0;
    std::size_t sent = 0;
    std::size_t begin = 0;  // the first element that a cut push has
  };

  std::size_t begin_of(const TensorRange& range) const noexcept;

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
