// The number of seeds, or steps, of a property test.
#pragma once

#include <cstdint>

namespace weft::tests {

/// `usual` seeds; a tenth of them under a sanitizer, which needs one case of each kind.
constexpr std::uint64_t seeds(std::uint64_t usual) noexcept {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return usual / 10;
#else
  return usual;
#endif
}

}  // namespace weft::tests
