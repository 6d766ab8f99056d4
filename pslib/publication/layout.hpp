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
struct RowRun {
  std::uint32_t tensor = 0;
  std::uint32_t rows = 0;
  std::uint64_t first = 0;

  friend bool operator==(const RowRun&, const RowRun&) = default;
};
static_assert(std::has_unique_object_representations_v<RowRun> && sizeof(RowRun) == 16);

/// In the order of tensors and rows, none empty, none touching the next.
using RowRuns = std::vector<RowRun>;

/// A pure function of the specs: both ends have the same. Immutable.
class PublishedLayout {
 public:
  static constexpr std::size_t kLine = 64;

  struct Placed {
    std::size_t offset = 0;     ///< of the tensor, in a buffer of them all
    std::size_t bytes = 0;      ///< of the tensor
    std::size_t row_bytes = 0;  ///< the last row may be shorter
    std::uint32_t rows = 0;
  };

  /// Throws Error(bad_argument) for a tensor of more rows, or bytes, than can be counted.
  explicit PublishedLayout(std::span<const PublishedTensor> specs);

  const std::vector<Placed>& tensors() const noexcept { return tensors_; }
  std::size_t bytes() const noexcept { return bytes_; }          ///< of the tensors alone
  std::size_t buffer_bytes() const noexcept { return buffer_; }  ///< with the space between

  /// Where a run lies in its tensor. Requires valid(run).
  std::size_t offset(const RowRun& run) const noexcept;
  std::size_t bytes(const RowRun& run) const noexcept;
  std::size_t bytes(std::span<const RowRun> runs) const noexcept;
  /// Every row.
  RowRuns all() const;
  /// Whether these are runs of such tensors, in order: what travelled is not trusted.
  bool valid(std::span<const RowRun> runs) const noexcept;

 private:
  std::vector<Placed> tensors_;
  std::size_t bytes_ = 0;
  std::size_t buffer_ = 0;
};

/// Rows that are in either.
RowRuns unite(std::span<const RowRun> a, std::span<const RowRun> b);

}  // namespace weft::pslib
