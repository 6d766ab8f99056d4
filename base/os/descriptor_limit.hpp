// The limit on file descriptors of this process, and whether it was reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace weft::os {

/// Raises the soft limit to the hard one: a rank needs several descriptors for each of its peers.
/// The usual low soft limit exists only for programs that use select().
void raise_descriptor_limit() noexcept;

/// The soft limit: every descriptor is below it.
std::size_t descriptor_limit() noexcept;

/// Number of descriptors that this process can still open. The count stops at `enough`. Opens none
/// itself.
std::size_t free_descriptors(std::size_t enough) noexcept;

/// Records that a connection, or descriptors that a peer sent, found no free descriptor just now.
void note_descriptor_shortage() noexcept;
/// Whether that was recorded at `since` or later.
bool lacked_descriptors(std::chrono::steady_clock::time_point since) noexcept;

}  // namespace weft::os
