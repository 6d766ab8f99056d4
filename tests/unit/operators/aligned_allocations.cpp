#include "tests/unit/operators/aligned_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t aligned = 0;
thread_local std::uint64_t others = 0;

}  // namespace

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++others;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++aligned;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* const memory = operator new(bytes, alignment, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace weft::tests {

std::uint64_t aligned_allocations() noexcept { return aligned; }
std::uint64_t other_allocations() noexcept { return others; }

}  // namespace weft::tests
