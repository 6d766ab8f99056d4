// Counts the aligned blocks of the program, which plain tensors are.
#pragma once

#include <cstdint>

namespace weft::tests {

/// The number of aligned operator new calls whose memory was not deleted yet.
std::int64_t aligned_blocks() noexcept;

/// While one lives, the aligned block that this thread allocated last has its address given again
/// after it was deleted, to the next block of its size.
class ReuseOfAddresses {
 public:
  ReuseOfAddresses() noexcept;
  ~ReuseOfAddresses();
  ReuseOfAddresses(const ReuseOfAddresses&) = delete;
  ReuseOfAddresses& operator=(const ReuseOfAddresses&) = delete;
};

}  // namespace weft::tests
