// A valid call, in the terms of the code that executes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collective/signature.hpp"

namespace weft::detail {

struct Task {
  Signature signature;
  std::size_t element = 1;   ///< bytes of an element
  std::byte* in = nullptr;   ///< null: this rank has no input
  std::byte* out = nullptr;  ///< null: this rank has no output
  std::size_t in_bytes = 0;
  std::size_t out_bytes = 0;
  std::int64_t count = 0;      ///< elements of a tensor, or of all parts
  std::size_t most_bytes = 0;  ///< largest `in` of any rank; SIZE_MAX if it is not known
  /// Begin of each part, and end of the last, in elements: of `in` for reduce_scatter, scatter and
  /// all_to_all, of `out` for all_gather and gather.
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> out_offsets;  ///< all_to_all's `out`

  CollectiveKind kind() const noexcept { return signature.kind; }
  int root() const noexcept { return signature.root; }
  std::int64_t part(int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    return offsets[r + 1] - offsets[r];
  }
  /// Bytes in front of `rank`'s part.
  std::size_t at(int rank) const noexcept {
    return static_cast<std::size_t>(offsets[static_cast<std::size_t>(rank)]) * element;
  }
  std::size_t part_bytes(int rank) const noexcept {
    return static_cast<std::size_t>(part(rank)) * element;
  }
};

/// Validates `call` as rank `rank` of `size`. `on_gpu`: its tensors may lie on GPUs. Throws
/// Error(bad_argument).
Task make_task(const Call& call, int rank, int size, bool on_gpu = false);

}  // namespace weft::detail
