#include "base/os/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <string>
#include <string_view>
#include <system_error>

#include "base/os/file_names.hpp"

namespace weft::os {
namespace {

namespace fs = std::filesystem;

/// The node of one processor: its folder has a link named "node<number>".
int numa_node_of(const fs::path& cpu) {
  constexpr std::string_view kNode = "node";
  for (const std::string& name : file_names(cpu)) {
    if (!name.starts_with(kNode)) continue;
    int node = -1;
    const char* const end = name.data() + name.size();
    if (const auto read = std::from_chars(name.data() + kNode.size(), end, node);
        read.ec == std::errc{} && read.ptr == end)
      return node;
  }
  return -1;
}

/// Called directly: hwloc would have to load the machine first, and libnuma would be one more
/// library for this one call.
bool set_policy(void* data, std::size_t bytes, int policy, std::span<const int> nodes) noexcept {
  constexpr int kWordBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 1024 / kWordBits> mask{};
  constexpr int kNodes = static_cast<int>(mask.size()) * kWordBits;
  for (const int node : nodes) {
    if (node < 0 || node >= kNodes) return false;
    mask[static_cast<std::size_t>(node / kWordBits)] |= 1UL << (node % kWordBits);
  }
  // The kernel takes one bit less than it is told.
  return ::syscall(SYS_mbind, data, bytes, policy, mask.data(), kNodes + 1, 0) == 0;
}

}  // namespace

bool prefer_numa(void* data, std::size_t bytes, int node) noexcept {
  return set_policy(data, bytes, MPOL_PREFERRED, {&node, 1});
}

bool bind_numa(void* data, std::size_t bytes, std::span<const int> nodes, int first) noexcept {
  if (!set_policy(data, bytes, MPOL_BIND, nodes)) return false;
#if defined(SYS_set_mempolicy_home_node)
  // An older kernel refuses, and takes the node nearest to the thread that touches a page.
  if (first >= 0) (void)::syscall(SYS_set_mempolicy_home_node, data, bytes, first, 0);
#else
  (void)first;
#endif
  return true;
}

bool has_memory_policy() noexcept {
  int policy = MPOL_DEFAULT;
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) == 0 &&
         policy != MPOL_DEFAULT;
}

int numa_node_of(std::span<const int> cpus, const fs::path& folder) {
  int node = -1;
  for (const int number : cpus) {
    const fs::path cpu = folder / ("cpu" + std::to_string(number));
    std::error_code failed;
    if (node < 0 && (node = numa_node_of(cpu)) < 0) return -1;
    if (!fs::exists(cpu / ("node" + std::to_string(node)), failed)) return -1;
  }
  return node;
}

}  // namespace weft::os
