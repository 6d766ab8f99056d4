// Replaces this program's operator new by one that can be told to fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::tests {

struct Shortage {
  std::uint64_t first = 0;  // counts allocations of at least `least` bytes from 1; 0: none fails
  std::size_t least = 0;    // smaller allocations succeed and are not counted
  bool lasts = false;       // all from `first` on fail, in place of that one alone
};

/// Begins to count, and fails allocations of all threads as `shortage` says.
void begin(const Shortage& shortage) noexcept;

/// The allocations of a job. A child process sends it to its parent, to which addresses of
/// code mean the same.
struct Allocations {
  std::uint64_t counted = 0;
  std::array<void*, 48> stack{};  // of the one that failed first
  int depth = 0;
};

/// Ends the shortage.
Allocations end_shortage() noexcept;

/// The call stack of the allocation that failed first, a line a call.
std::string text(const Allocations& allocations);

}  // namespace weft::tests
