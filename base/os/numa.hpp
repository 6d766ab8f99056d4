// Which node's memory a range gets.
#pragma once

#include <cstddef>

namespace weft::os {

/// Pages of the range that come from now on are taken from that NUMA node while it has any. False
/// where the kernel refuses: there is no such node, or a container may not say. `data` is at a
/// page.
bool prefer_numa(void* data, std::size_t bytes, int node) noexcept;

}  // namespace weft::os
