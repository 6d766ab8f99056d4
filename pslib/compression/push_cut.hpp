// The part of a worker's push that some shards are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pslib/compression/push_format.hpp"
#include "pslib/compression/slot_cut.hpp"

namespace weft::pslib {

/// One contributor's gradients of a piece.
struct Source {
  /// Points to the piece's first element, in the table's wire type; with a format, to the push.
  const std::byte* at = nullptr;
  const PushFormat* format = nullptr;  ///< null: the push is not compressed
};

/// The part of a worker's push that some shards read, in place or alone. Immutable.
class PushCut {
 public:
  /// For pieces whose server is among `servers`; `pieces` are all of the table's. Each push is a
  /// slot of `elements` elements, of bytes if compressed and else of the wire type. The words
  /// behind the gradients are read too. `pushes` must outlive it.
  PushCut(const PushFormat& pushes, std::span<const ShardPiece> pieces,
          std::span<const int> servers, std::int64_t elements);

  /// For PublishedReader::view().
  std::span<const SlotRun> runs() const noexcept { return cut_.runs(); }
  /// Whether a view has all of a push, so that pieces of every server can be read.
  bool is_whole(const Tensor& viewed) const noexcept { return cut_.is_whole(viewed); }
  /// A piece of one of the servers, in a view of a push.
  Source source(const Tensor& viewed, std::size_t tensor, std::int64_t first) const noexcept;
  /// The words that follow the gradients.
  const std::byte* words(const Tensor& viewed) const noexcept;

 private:
  std::byte* data(const Tensor& viewed, std::int64_t element) const noexcept;

  const PushFormat& pushes_;
  const std::size_t width_;
  SlotCut cut_;
  std::optional<PushFormat> format_;  ///< of a view of the runs alone, if compressed
};

}  // namespace weft::pslib
