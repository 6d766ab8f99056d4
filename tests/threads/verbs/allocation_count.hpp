// How often this thread has allocated.
#pragma once

#include <cstdint>

namespace weft::tests {

/// By operator new, of this thread, except while it passed over them.
std::uint64_t allocations() noexcept;

/// While one lives, this thread's allocations are not counted: they are the test's own.
class PassOverAllocations {
 public:
  PassOverAllocations() noexcept;
  ~PassOverAllocations();
  PassOverAllocations(const PassOverAllocations&) = delete;
  PassOverAllocations& operator=(const PassOverAllocations&) = delete;
};

}  // namespace weft::tests
