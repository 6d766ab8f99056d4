#include "pslib/sparse/row_index.hpp"

#include <bit>
#include <cstring>

#include "base/mix64.hpp"

namespace weft::pslib {
namespace {

// The group uses the hash's low bits, the tag its high bits.
std::uint8_t tag_of(std::uint64_t hash) noexcept {
  return static_cast<std::uint8_t>(0x80U | (hash >> 57));
}

}  // namespace

RowIndex::RowIndex() : groups_(1) {}

// Iterates over the slots of a group with a given tag; compares 8 tags at a time.
class RowIndex::Matches {
 public:
  Matches(const Group& group, std::uint8_t tag) noexcept {
    std::memcpy(&low_, group.tags, 8);
    std::uint32_t rest = 0;
    std::memcpy(&rest, group.tags + 8, 4);
    low_ = equal_bytes(low_, tag);
    high_ = equal_bytes(rest, tag) & 0xffffffffU;
  }
  bool any() const noexcept { return (low_ | high_) != 0; }
  std::size_t take() noexcept {
    std::uint64_t& word = low_ != 0 ? low_ : high_;
    const auto slot = static_cast<std::size_t>(std::countr_zero(word)) / 8;
    const std::size_t base = low_ != 0 ? 0 : 8;
    word &= word - 1;
    return base + slot;
  }

 private:
  // Sets the highest bit of each byte that equals `byte`.
  static constexpr std::uint64_t equal_bytes(std::uint64_t word, std::uint8_t byte) noexcept {
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fULL;
    const std::uint64_t other = word ^ (0x0101010101010101ULL * byte);
    return ~(((other & kLow) + kLow) | other | kLow);
  }

  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

std::uint32_t RowIndex::find(std::uint64_t id, std::span<const std::uint64_t> ids) const noexcept {
  const std::uint64_t hash = mix64(id);
  const std::size_t last = groups_.size() - 1;
  for (std::size_t at = hash & last;; at = (at + 1) & last) {
    const Group& group = groups_[at];
    for (Matches found(group, tag_of(hash)); found.any();) {
      const std::uint32_t number = group.numbers[found.take()];
      if (ids[number] == id) return number;
    }
    if (group.tags[kGroup - 1] == 0) return kNone;
  }
}

void RowIndex::fetch(std::uint64_t id) const noexcept {
  __builtin_prefetch(&groups_[mix64(id) & (groups_.size() - 1)]);
}

std::uint32_t RowIndex::guess(std::uint64_t id) const noexcept {
  const std::uint64_t hash = mix64(id);
  const Group& group = groups_[hash & (groups_.size() - 1)];
  Matches found(group, tag_of(hash));
  return found.any() ? group.numbers[found.take()] : kNone;
}

void RowIndex::add_last(std::span<const std::uint64_t> ids) {
  if (ids.size() > most_rows(groups_.size())) return rebuild(ids);
  insert(ids.back(), static_cast<std::uint32_t>(ids.size() - 1));
}

void RowIndex::rebuild(std::span<const std::uint64_t> ids) {
  std::size_t count = 1;
  while (most_rows(count) < ids.size()) count *= 2;
  std::vector<Group> groups(count);
  groups_.swap(groups);
  for (std::size_t i = 0; i < ids.size(); ++i) insert(ids[i], static_cast<std::uint32_t>(i));
}

void RowIndex::insert(std::uint64_t id, std::uint32_t number) noexcept {
  const std::uint64_t hash = mix64(id);
  const std::size_t last = groups_.size() - 1;
  std::size_t at = hash & last;
  while (groups_[at].tags[kGroup - 1] != 0) at = (at + 1) & last;
  Group& group = groups_[at];
  std::size_t slot = 0;
  while (group.tags[slot] != 0) ++slot;
  group.tags[slot] = tag_of(hash);
  group.numbers[slot] = number;
}

std::size_t RowIndex::bytes() const noexcept { return groups_.capacity() * sizeof(Group); }

}  // namespace weft::pslib
