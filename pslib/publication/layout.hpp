// How the tensors of a publication lie in a buffer, and the rows that deltas are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/publication.hpp"

namespace weft::pslib {

/// Rows of one tensor that lie one behind the other. On the wire as it is, little-endian.
struct Run {
  std::uint32_t tensor = 0;
  std::uint32_t rows = 0;
  std::uint64_t first = 0;

  friend bool operator==(const Run&, const Run&) = default;
};
static_assert(std::has_unique_object_representations_v<Run> && sizeof(Run) == 16);

/// In the order of tensors and rows, none empty, none touching the next.
using Runs = std::vector<Run>;

/// A pure function of the specs: both ends have the same. Immutable.
class Layout {
 public:
  static constexpr std::size_t kLine = 64;

  struct Placed {
    std::size_t offset = 0;     ///< of the tensor, in a buffer of them all
    std::size_t bytes = 0;      ///< of the tensor
    std::size_t row_bytes = 0;  ///< the last row may be shorter
    std::uint32_t rows = 0;
  };

  /// Throws Error(bad_argument) for a tensor of more rows, or bytes, than can be counted.
  explicit Layout(std::span<const PublishedTensor> specs);

  const std::vector<Placed>& tensors() const noexcept { return tensors_; }
  std::size_t bytes() const noexcept { return bytes_; }          ///< of the tensors alone
  std::size_t buffer_bytes() const noexcept { return buffer_; }  ///< with the space between

  /// Where a run lies in its tensor. Requires valid(run).
  std::size_t offset(const Run& run) const noexcept;
  std::size_t bytes(const Run& run) const noexcept;
  std::size_t bytes(std::span<const Run> runs) const noexcept;
  /// Every row.
  Runs all() const;
  /// Whether these are runs of such tensors, in order: what travelled is not trusted.
  bool valid(std::span<const Run> runs) const noexcept;

 private:
  std::vector<Placed> tensors_;
  std::size_t bytes_ = 0;
  std::size_t buffer_ = 0;
};

/// Rows that are in either.
Runs unite(std::span<const Run> a, std::span<const Run> b);

}  // namespace weft::pslib
