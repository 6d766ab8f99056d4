#include "benchmarks/harness/keep_memory.hpp"

#include <malloc.h>

#include <stdexcept>

namespace weft::bench {

void keep_freed_memory() {
  constexpr int kTopPad = 64 << 20;
  const bool set = ::mallopt(M_MMAP_MAX, 0) == 1 && ::mallopt(M_TRIM_THRESHOLD, -1) == 1 &&
                   ::mallopt(M_TOP_PAD, kTopPad) == 1 &&
                   // Heaps of other threads end at 64 MiB; a larger block would be mapped.
                   ::mallopt(M_ARENA_MAX, 1) == 1;
  if (!set) throw std::runtime_error("mallopt refused to keep freed memory");
}

}  // namespace weft::bench
