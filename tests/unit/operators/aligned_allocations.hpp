// Counts a thread's allocations.
#pragma once

#include <cstdint>

namespace weft::tests {

/// By operator new in this thread so far: those with an alignment, which are weft's memory for
/// tensors and scratch, and all others, oneDNN's own among them.
std::uint64_t aligned_allocations() noexcept;
std::uint64_t other_allocations() noexcept;

}  // namespace weft::tests
