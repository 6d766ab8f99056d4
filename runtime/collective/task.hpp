// A call that was found to make sense, in the terms of those who carry it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collective/signature.hpp"

namespace weft::detail {

struct Task {
  Signature signature;
  std::size_t element = 1;   ///< bytes
  std::byte* in = nullptr;   ///< null: this rank gives nothing
  std::byte* out = nullptr;  ///< null: it gets nothing
  std::size_t in_bytes = 0;
  std::size_t out_bytes = 0;
  std::int64_t count = 0;      ///< elements of a tensor, or of all parts
  std::size_t most_bytes = 0;  ///< of any rank's `in`; -1 where it can't be known
  /// Where parts begin, in elements, and where the last ends. Of `in`: reduce_scatter, scatter,
  /// all_to_all; of `out`: all_gather, gather.
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> out_offsets;  ///< all_to_all's `out`

  CollectiveKind kind() const noexcept { return signature.kind; }
  int root() const noexcept { return signature.root; }
  std::int64_t part(int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    return offsets[r + 1] - offsets[r];
  }
  /// Bytes in front of a rank's part.
  std::size_t at(int rank) const noexcept {
    return static_cast<std::size_t>(offsets[static_cast<std::size_t>(rank)]) * element;
  }
  std::size_t part_bytes(int rank) const noexcept {
    return static_cast<std::size_t>(part(rank)) * element;
  }
};

/// Throws Error(bad_argument).
Task make_task(const Call& call, int rank, int size);

}  // namespace weft::detail
