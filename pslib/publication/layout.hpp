// The layout of a publication's tensors in a buffer, and the rows of which deltas consist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/publication.hpp"

namespace weft::pslib {

/// Contiguous rows of one tensor. Sent in this form, little-endian.
struct RowRun {
  std::uint32_t tensor = 0;
  std::uint32_t rows = 0;
  std::uint64_t first = 0;

  friend bool operator==(const RowRun&, const RowRun&) = default;
};
static_assert(std::has_unique_object_representations_v<RowRun> && sizeof(RowRun) == 16);

/// Sorted by tensor and row; no run is empty or touches the next.
using RowRuns = std::vector<RowRun>;

/// A pure function of the specs, so both ends compute the same. Immutable.
class PublishedLayout {
 public:
  static constexpr std::size_t kLine = 64;

  struct Placed {
    std::size_t offset = 0;     ///< of the tensor, in a buffer of all tensors
    std::size_t bytes = 0;      ///< of the tensor
    std::size_t row_bytes = 0;  ///< the last row may be shorter
    std::uint32_t rows = 0;
  };

  /// Throws Error(bad_argument) if a tensor has too many rows or bytes.
  explicit PublishedLayout(std::span<const PublishedTensor> specs);

  const std::vector<Placed>& tensors() const noexcept { return tensors_; }
  std::size_t bytes() const noexcept { return bytes_; }  ///< of the tensors, without padding
  std::size_t buffer_bytes() const noexcept { return buffer_; }  ///< with padding

  /// Byte offset of a run in its tensor. Requires valid(run).
  std::size_t offset(const RowRun& run) const noexcept;
  std::size_t bytes(const RowRun& run) const noexcept;
  std::size_t bytes(std::span<const RowRun> runs) const noexcept;
  /// All rows of all tensors.
  RowRuns all() const;
  /// True if the runs are sorted and lie within the tensors. For checking received runs.
  bool valid(std::span<const RowRun> runs) const noexcept;

 private:
  std::vector<Placed> tensors_;
  std::size_t bytes_ = 0;
  std::size_t buffer_ = 0;
};

/// Union of two sets of rows.
RowRuns unite(std::span<const RowRun> a, std::span<const RowRun> b);

}  // namespace weft::pslib
