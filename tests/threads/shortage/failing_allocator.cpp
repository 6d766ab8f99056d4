#include "tests/threads/shortage/failing_allocator.hpp"

#include <execinfo.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace weft::tests {
namespace {

std::atomic<bool> counts{false};
std::atomic<std::uint64_t> counted{0};
Shortage current;
Allocations seen;

bool fails(std::size_t bytes) noexcept {
  if (!counts.load(std::memory_order_acquire) || bytes < current.least) return false;
  const std::uint64_t number = counted.fetch_add(1) + 1;
  if (number == current.first)
    seen.depth = ::backtrace(seen.stack.data(), static_cast<int>(seen.stack.size()));
  return number == current.first || (current.lasts && current.first != 0 && number > current.first);
}

}  // namespace

void begin(const Shortage& shortage) noexcept {
  (void)::backtrace(seen.stack.data(), 1);  // its first call allocates
  current = shortage;
  counted.store(0);
  counts.store(true, std::memory_order_release);
}

Allocations end_shortage() noexcept {
  counts.store(false);
  seen.counted = counted.load();
  return seen;
}

std::string text(const Allocations& allocations) {
  std::string lines;
  char** const names = ::backtrace_symbols(allocations.stack.data(), allocations.depth);
  for (int i = 0; names != nullptr && i < allocations.depth; ++i)
    lines.append("  ").append(names[i]).append("\n");
  std::free(
      names);  // NOLINT(cppcoreguidelines-no-malloc,bugprone-multi-level-implicit-pointer-conversion)
  return lines;
}

}  // namespace weft::tests

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return weft::tests::fails(bytes) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  const auto to = static_cast<std::size_t>(align);
  return weft::tests::fails(bytes) ? nullptr : std::aligned_alloc(to, (bytes + to - 1) / to * to);
}
void* operator new(std::size_t bytes, std::align_val_t align) {
  if (void* const memory = operator new(bytes, align, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
