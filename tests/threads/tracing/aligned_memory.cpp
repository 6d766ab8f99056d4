#include "tests/threads/tracing/aligned_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> blocks{0};

struct Block {
  void* memory = nullptr;
  std::size_t bytes = 0;
  bool is_free = false;
};
thread_local bool reuses = false;
thread_local Block last;

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto whole = static_cast<std::size_t>(alignment);
  if (bytes > SIZE_MAX - whole) throw std::bad_alloc();
  void* memory = nullptr;
  if (reuses && last.is_free && last.bytes == bytes) {
    memory = last.memory;
    last.is_free = false;
  } else {
    memory = std::aligned_alloc(whole, (bytes + whole - 1) / whole * whole);
    if (memory == nullptr) throw std::bad_alloc();
    if (reuses) {
      if (last.is_free) std::free(last.memory);
      last = {memory, bytes, false};
    }
  }
  ++blocks;
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept {
  if (memory == nullptr) return;
  --blocks;
  if (reuses && memory == last.memory)
    last.is_free = true;
  else
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  operator delete(memory, alignment);
}

namespace weft::tests {

std::int64_t aligned_blocks() noexcept { return blocks; }

ReuseOfAddresses::ReuseOfAddresses() noexcept { reuses = true; }
ReuseOfAddresses::~ReuseOfAddresses() {
  if (last.is_free) std::free(last.memory);
  last = {};
  reuses = false;
}

}  // namespace weft::tests
