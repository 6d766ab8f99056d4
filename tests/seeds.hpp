// How many seeds a property test draws, or steps.
#pragma once

#include <cstdint>

namespace weft::tests {

/// `usual` many; a tenth under a sanitizer, which needs each kind of case, not each case.
constexpr std::uint64_t seeds(std::uint64_t usual) noexcept {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return usual / 10;
#else
  return usual;
#endif
}

}  // namespace weft::tests
