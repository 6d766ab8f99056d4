// A worker's push slot and the buffers it pushes from.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pslib/compression/compressor.hpp"
#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// A worker's gradients, its copy of the parameters, and the slot from which servers read its
/// pushes. Gradients are written into the slot's buffer, or compressed into it. If a push has no
/// room for the initial parameters, the first worker publishes them in a slot of their own, whose
/// buffer is its copy of the parameters from then on. Not thread-safe.
class PushSlot {
 public:
  /// Exposes the slots. `table` must outlive this object. Throws Error as World::expose and
  /// World::allocate do.
  PushSlot(World& world, const Description& table);

  /// As PublishedSlot::also_needs, for waits until servers are done with a push.
  void also_needs(std::span<const int> ranks, Needed needed) { slot_.also_needs(ranks, needed); }
  /// Flat, in the order of Layout.
  const Tensor& gradients() const noexcept { return gradients_; }
  const Tensor& parameters() const noexcept { return parameters_; }
  void clear_gradients() noexcept;

  /// If this is the first worker, fills the next push with its parameters.
  Status fill_initial() noexcept;
  /// Fills the next push with the gradients. An error changes nothing.
  Status fill() noexcept;
  /// The words behind the gradients of an asynchronous table.
  std::byte* words() noexcept { return buffer_.data() + table_.pushes.bytes(); }
  Status publish() noexcept { return slot_.publish(); }
  /// Waits until all servers are done with the last push.
  Status reclaim(Deadline deadline) noexcept { return slot_.next(deadline).status(); }

  CompressionStatistics compression() const noexcept {
    return compressor_ ? compressor_->statistics() : CompressionStatistics{};
  }

 private:
  const Description& table_;
  PublishedSlot slot_;
  Tensor buffer_;  // the slot's buffer
  std::optional<PublishedSlot> initial_;
  Tensor gradients_;
  Tensor parameters_;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace weft::pslib
