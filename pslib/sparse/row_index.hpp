// An open-addressing hash table from 64-bit ids to 32-bit row numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::pslib {

/// A slot holds one byte of the row's hash and the row's number. 12 slots form a group on one cache
/// line, so a slot takes 5 1/3 bytes; at most 7/8 of the slots are used. The ids stay with the
/// rows, whose owner passes them to each call. Rows are numbered 0, 1, ... in the order of `ids`.
/// Not thread-safe.
class RowIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  RowIndex();

  /// kNone if `id` is not in `ids`.
  std::uint32_t find(std::uint64_t id, std::span<const std::uint64_t> ids) const noexcept;
  /// Prefetches the first group that find() reads.
  void fetch(std::uint64_t id) const noexcept;
  /// The number that find() checks first, which is likely the row's; kNone if there is none.
  std::uint32_t guess(std::uint64_t id) const noexcept;
  /// Adds the last of `ids`, which must be new. Throws std::bad_alloc.
  void add_last(std::span<const std::uint64_t> ids);
  /// Rebuilds the index for `ids`. Throws std::bad_alloc.
  void rebuild(std::span<const std::uint64_t> ids);

  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kGroup = 12;

  // Slots of a group are filled in order.
  struct alignas(64) Group {
    std::uint8_t tags[kGroup] = {};  // 0: free
    std::uint32_t numbers[kGroup] = {};
  };
  void insert(std::uint64_t id, std::uint32_t number) noexcept;

  static constexpr std::size_t most_rows(std::size_t groups) noexcept {
    return groups * kGroup / 8 * 7;
  }
  class Matches;

  std::vector<Group> groups_;
};

}  // namespace weft::pslib
