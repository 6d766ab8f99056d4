// Sets of members of a group.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::detail {

/// A set of members of a group, indexed by their place in the group.
using Places = std::vector<bool>;

/// The members of `set`, ascending.
inline std::vector<int> members_of(const Places& set) {
  std::vector<int> members;
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) members.push_back(static_cast<int>(member));
  return members;
}

inline void add(Places& to, const Places& set) {
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) to[member] = true;
}

inline void remove(Places& from, const Places& set) {
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) from[member] = false;
}

inline Places common(const Places& one, const Places& other) {
  Places both(one.size());
  for (std::size_t member = 0; member < both.size(); ++member)
    both[member] = one[member] && other[member];
  return both;
}

}  // namespace weft::detail
