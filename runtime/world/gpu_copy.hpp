// Copies from and to tensors on a GPU, for the layers above the runtime.
#pragma once

#include <optional>
#include <utility>

#include "p2p/transport/cuda/device_copy.hpp"
#include "weft/world.hpp"

namespace weft {

/// A copy that is made again and again between two dense tensors: one on a GPU, the other on the
/// same GPU or of World::allocate in host memory. It goes on by itself. If this object goes first,
/// both tensors stay until the copy has ended. Not thread-safe.
class GpuCopy {
 public:
  /// `world` must outlive this object.
  GpuCopy(World& world, Tensor from, Tensor to);
  /// The same with zeros as the elements of `from`. `to` must be of World::allocate, or a slot's.
  static GpuCopy of_zeros(World& world, Tensor to) { return {world, {}, std::move(to)}; }

  /// Begins to copy, unless the copy of a call that has timed out is under way, and waits for its
  /// end. Errors: timeout, system and exhausted (of the GPU).
  Status run(const char* operation, Deadline deadline) noexcept;
  /// Whether the copy of a call that has timed out goes on: both tensors belong to it.
  bool is_under_way() const noexcept { return copy_.has_value(); }
  std::size_t bytes() const noexcept { return to_.bytes(); }

 private:
  bool clears() const noexcept { return from_.empty(); }

  World& world_;
  Tensor from_;  ///< empty: zeros
  Tensor to_;
  std::optional<p2p::cuda::DeviceCopy> copy_;  ///< under way
};

}  // namespace weft
