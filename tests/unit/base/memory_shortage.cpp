#include "tests/unit/base/memory_shortage.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local bool is_short = false;

}  // namespace

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return is_short ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weft::tests {

MemoryShortage::MemoryShortage() noexcept { is_short = true; }
MemoryShortage::~MemoryShortage() { is_short = false; }

}  // namespace weft::tests
