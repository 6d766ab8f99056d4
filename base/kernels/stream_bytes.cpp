#include <unistd.h>

#include "base/kernels/copy.hpp"

namespace weft::kernels {

// Measured between two cores: fetching a tensor from the writer's first-level cache beats writing
// it to memory and reading it back if the tensor fits that cache, and loses otherwise.
std::size_t default_stream_bytes() noexcept {
  constexpr std::size_t kCommon = 32 << 10;
  const long bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kCommon;  // 0: the C library does not know
}

}  // namespace weft::kernels
