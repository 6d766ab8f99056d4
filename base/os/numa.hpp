// Which NUMA node processors belong to, and whose memory a range gets.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::os {

/// Pages of the range that come from now on are taken from that NUMA node while it has any. False
/// where the kernel refuses: there is no such node, or a container may not say. `data` is at a
/// page.
bool prefer_numa(void* data, std::size_t bytes, int node) noexcept;

/// The NUMA node that all of these processors belong to; -1: to several, or the kernel doesn't say.
/// `folder`: where it describes processors (tests).
int numa_node_of(std::span<const int> cpus,
                 const std::filesystem::path& folder = "/sys/devices/system/cpu");

}  // namespace weft::os
