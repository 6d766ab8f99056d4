#include <unistd.h>

#include "base/kernels/copy.hpp"

namespace weft::kernels {

// Measured between two cores: what fits the writer's first cache is fetched from there faster than
// it is written to memory and read back; anything larger is not.
std::size_t default_stream_bytes() noexcept {
  constexpr std::size_t kCommon = 32 << 10;
  const long bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kCommon;  // 0: the C library can't tell
}

}  // namespace weft::kernels
