// The layout of a table's tensors in a worker's buffers and in a shard's region: one after another,
// each starting on a cache line.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/pslib.hpp"

namespace weft::pslib {

inline constexpr std::int64_t kLineElements = 64 / sizeof(float);

constexpr std::int64_t lines_of(std::int64_t elements) noexcept {
  return (elements + kLineElements - 1) / kLineElements;
}
constexpr std::int64_t padded(std::int64_t elements) noexcept {
  return lines_of(elements) * kLineElements;
}

/// Size of a server's region in elements: its padded pieces, and at least one cache line, so that a
/// server without pieces takes part in the protocol like any other.
std::int64_t region_elements(std::span<const ShardPiece> pieces, int server) noexcept;

/// Start of each tensor in a worker's flat buffer.
class Layout {
 public:
  explicit Layout(std::span<const TensorSpec> specs);

  std::int64_t offset(std::size_t tensor) const noexcept { return offsets_[tensor]; }
  std::span<const std::int64_t> offsets() const noexcept { return offsets_; }
  std::int64_t elements() const noexcept { return elements_; }

 private:
  std::vector<std::int64_t> offsets_;
  std::int64_t elements_ = 0;
};

}  // namespace weft::pslib
