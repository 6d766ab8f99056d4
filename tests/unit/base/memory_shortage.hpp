// Makes a test run out of memory.
#pragma once

namespace weft::tests {

/// While one lives, operator new throws std::bad_alloc in this thread.
class MemoryShortage {
 public:
  MemoryShortage() noexcept;
  ~MemoryShortage();
  MemoryShortage(const MemoryShortage&) = delete;
  MemoryShortage& operator=(const MemoryShortage&) = delete;
};

}  // namespace weft::tests
