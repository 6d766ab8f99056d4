#include "base/os/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

namespace weft::os {

bool prefer_numa(void* data, std::size_t bytes, int node) noexcept {
  constexpr int kWordBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 1024 / kWordBits> nodes{};
  constexpr int kNodes = static_cast<int>(nodes.size()) * kWordBits;
  if (node < 0 || node >= kNodes) return false;
  nodes[static_cast<std::size_t>(node / kWordBits)] = 1UL << (node % kWordBits);
  // Called directly: libnuma would be one more library for this one call. The kernel takes one bit
  // less than it is told.
  return ::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, nodes.data(), kNodes + 1, 0) == 0;
}

}  // namespace weft::os
