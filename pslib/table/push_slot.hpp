// What a worker sends, and from where.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pslib/compression/compressor.hpp"
#include "pslib/table/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// A worker's gradients and its copy of the parameters, and the slot in which servers read its
/// pushes. Gradients are written into the slot itself unless they are compressed into it. Where a
/// push has no room for the initial parameters, the first worker shows them in a slot of their own,
/// which is its copy of the parameters from then on.
/// Thread-safety: one thread at a time.
class PushSlot {
 public:
  /// Exposes the slots. `table` must outlive it. Throws Error as World::expose and World::allocate
  /// do.
  PushSlot(World& world, const Description& table);

  /// As PublishedSlot::also_needs, for a wait for room.
  void also_needs(std::span<const int> ranks, Needed needed) { slot_.also_needs(ranks, needed); }
  /// Flat, laid out as Layout says.
  const Tensor& gradients() const noexcept { return gradients_; }
  const Tensor& parameters() const noexcept { return parameters_; }
  void clear_gradients() noexcept;

  /// Makes the parameters what the next push carries, if they are the first worker's.
  Status fill_initial() noexcept;
  /// The same of the gradients. Nothing has changed after an error.
  Status fill() noexcept;
  /// An asynchronous table's words behind them.
  std::byte* words() noexcept { return buffer_.data() + table_.pushes.bytes(); }
  Status publish() noexcept { return slot_.publish(); }
  /// All servers are done with the last push.
  Status reclaim(Deadline deadline) noexcept { return slot_.next(deadline).status(); }

  CompressionStatistics compression() const noexcept {
    return compressor_ ? compressor_->statistics() : CompressionStatistics{};
  }

 private:
  const Description& table_;
  PublishedSlot slot_;
  Tensor buffer_;  // of the slot
  std::optional<PublishedSlot> initial_;
  Tensor gradients_;
  Tensor parameters_;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace weft::pslib
