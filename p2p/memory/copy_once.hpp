// Copies a record out of memory that another rank may write, so that it is checked and used as one
// and the same.
#pragma once

#include <cstring>
#include <type_traits>

namespace weft::p2p {

/// A copy that stays as it is. The compiler may not look at `from` again in its place.
template <typename T>
T copy_once(const void* from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T copy;
  std::memcpy(static_cast<void*>(&copy), from, sizeof copy);
  asm volatile("" : : : "memory");
  return copy;
}

}  // namespace weft::p2p
