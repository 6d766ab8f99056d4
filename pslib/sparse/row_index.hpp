// Which number a row has: an open-addressing table from 64-bit ids to 32-bit numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::pslib {

/// Spreads ids over servers, groups and tags: the finalizer of splitmix64 (Steele, Lea, Flood
/// 2014), a bijection.
constexpr std::uint64_t mixed(std::uint64_t word) noexcept {
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
  return word ^ word >> 31;
}

/// A byte of each row's hash and its number lie in groups of 12 slots, each group on a cache line;
/// ids stay with the rows, whose owner passes them in. So a slot takes 5 1/3 bytes, and at most 7/8
/// of them are taken. Rows are numbered 0, 1, ... in the order of their ids' span.
/// Thread-safety: one thread at a time.
class RowIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  RowIndex();

  /// kNone for an id that is not among `ids`.
  std::uint32_t find(std::uint64_t id, std::span<const std::uint64_t> ids) const noexcept;
  /// Begins to load what find() looks at first.
  void fetch(std::uint64_t id) const noexcept;
  /// The number that find() will look at first, likely to be the row's; kNone: there is none.
  std::uint32_t guess(std::uint64_t id) const noexcept;
  /// The last of `ids`, which was not among them before. Throws std::bad_alloc.
  void add_last(std::span<const std::uint64_t> ids);
  /// From the beginning, for these. Throws std::bad_alloc.
  void rebuild(std::span<const std::uint64_t> ids);

  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kGroup = 12;

  // Slots are taken in order.
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
