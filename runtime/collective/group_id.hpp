// Names a group by its ranks, alike on all of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/mix64.hpp"

namespace weft::detail {

constexpr std::uint64_t mixed_id(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 33;
}

/// Hash of the ranks of a group, in their order.
inline std::uint64_t list_id(std::span<const int> ranks) noexcept {
  std::uint64_t hash = mixed_id(kGolden64, ranks.size());
  for (const int rank : ranks) hash = mixed_id(hash, static_cast<std::uint64_t>(rank));
  return hash;
}

/// Identifies the `nth` group of these ranks.
constexpr std::uint64_t group_id(std::uint64_t list, std::uint64_t nth) noexcept {
  return mixed_id(list, nth);
}

}  // namespace weft::detail
