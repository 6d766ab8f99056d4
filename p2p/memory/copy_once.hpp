// Copies a record out of memory that another rank may write, so that the checked values are the
// used values.
#pragma once

#include <cstring>
#include <type_traits>

namespace weft::p2p {

/// A private copy of the T at `from`. The compiler must not read `from` again in place of the copy.
template <typename T>
T copy_once(const void* from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T copy;
  std::memcpy(static_cast<void*>(&copy), from, sizeof copy);
  asm volatile("" : : : "memory");
  return copy;
}

}  // namespace weft::p2p
