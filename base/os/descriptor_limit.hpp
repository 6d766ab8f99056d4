// The limit on file descriptors of this process.
#pragma once

#include <cstddef>

namespace weft::os {

/// Raises the soft limit to the hard one: a rank needs several descriptors for each of its peers.
/// The usual low soft limit exists only for programs that use select().
void raise_descriptor_limit() noexcept;

/// The soft limit: every descriptor is below it.
std::size_t descriptor_limit() noexcept;

}  // namespace weft::os
