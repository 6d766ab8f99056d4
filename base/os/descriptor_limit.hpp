// How many descriptors this process may have.
#pragma once

#include <cstddef>

namespace weft::os {

/// Raises the soft limit to the hard one, if it is lower: it was made for programs that use
/// select(), and a rank needs descriptors for each of its peers.
void raise_descriptor_limit() noexcept;

/// The soft limit: every descriptor's number is below it.
std::size_t descriptor_limit() noexcept;

}  // namespace weft::os
