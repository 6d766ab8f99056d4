// A signal's memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::p2p {

/// A signal's cache line in its owner's control arena.
struct alignas(64) SignalLine {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> closed;
};

}  // namespace weft::p2p
