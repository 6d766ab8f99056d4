// Counts the allocations of a thread.
#pragma once

#include <cstdint>

namespace weft::tests {

/// The number of operator new calls of this thread, without those under a PassOverAllocations.
std::uint64_t allocations() noexcept;

/// While one lives, this thread's allocations are not counted, since they are the test's own.
class PassOverAllocations {
 public:
  PassOverAllocations() noexcept;
  ~PassOverAllocations();
  PassOverAllocations(const PassOverAllocations&) = delete;
  PassOverAllocations& operator=(const PassOverAllocations&) = delete;
};

}  // namespace weft::tests
