#include "tests/threads/verbs/allocation_count.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t count = 0;
thread_local int passed_over = 0;

}  // namespace

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (passed_over == 0) ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft::tests {

std::uint64_t allocations() noexcept { return count; }

PassOverAllocations::PassOverAllocations() noexcept { ++passed_over; }
PassOverAllocations::~PassOverAllocations() { --passed_over; }

}  // namespace weft::tests
