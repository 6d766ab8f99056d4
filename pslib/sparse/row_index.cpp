#include "pslib/sparse/row_index.hpp"

namespace weft::pslib {
namespace {

// The group comes from the hash's low bits, the tag from its high ones.
std::uint8_t tag_of(std::uint64_t hash) noexcept {
  return static_cast<std::uint8_t>(0x80U | (hash >> 57));
}

constexpr std::size_t most_rows(std::size_t slots) noexcept { return slots / 8 * 7; }

}  // namespace

RowIndex::RowIndex() : tags_(1), numbers_(kGroup) {}

std::uint32_t RowIndex::find(std::uint64_t id, std::span<const std::uint64_t> ids) const noexcept {
  const std::uint64_t hash = mixed(id);
  const std::uint8_t tag = tag_of(hash);
  const std::size_t last = tags_.size() - 1;
  for (std::size_t group = hash & last;; group = (group + 1) & last) {
    const Tags& tags = tags_[group];
    bool is_full = true;
    for (std::size_t i = 0; i < kGroup; ++i) {
      if (tags.of[i] == tag && ids[numbers_[group * kGroup + i]] == id)
        return numbers_[group * kGroup + i];
      is_full = is_full && tags.of[i] != 0;
    }
    if (!is_full) return kNone;
  }
}

void RowIndex::add_last(std::span<const std::uint64_t> ids) {
  if (ids.size() > most_rows(numbers_.size())) return rebuild(ids);
  insert(ids.back(), static_cast<std::uint32_t>(ids.size() - 1));
}

void RowIndex::rebuild(std::span<const std::uint64_t> ids) {
  std::size_t groups = 1;
  while (most_rows(groups * kGroup) < ids.size()) groups *= 2;
  std::vector<Tags> tags(groups);
  std::vector<std::uint32_t> numbers(groups * kGroup);
  tags_.swap(tags);
  numbers_.swap(numbers);
  for (std::size_t i = 0; i < ids.size(); ++i) insert(ids[i], static_cast<std::uint32_t>(i));
}

void RowIndex::insert(std::uint64_t id, std::uint32_t number) noexcept {
  const std::uint64_t hash = mixed(id);
  const std::size_t last = tags_.size() - 1;
  for (std::size_t group = hash & last;; group = (group + 1) & last) {
    for (std::size_t i = 0; i < kGroup; ++i) {
      if (tags_[group].of[i] != 0) continue;
      tags_[group].of[i] = tag_of(hash);
      numbers_[group * kGroup + i] = number;
      return;
    }
  }
}

std::size_t RowIndex::bytes() const noexcept {
  return tags_.capacity() * sizeof(Tags) + numbers_.capacity() * sizeof(std::uint32_t);
}

}  // namespace weft::pslib
