// Test patterns: bytes that are unique per rank, slot and sequence number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/mix64.hpp"
#include "weft/tensor.hpp"

namespace weft::tests {

/// Scrambles 64 bits, so that neighbours have nothing in common.
constexpr std::uint64_t mix(std::uint64_t x) { return mix64(x + kGolden64); }

constexpr std::uint64_t pattern_of(int rank, int slot, std::uint64_t sequence) {
  return mix((static_cast<std::uint64_t>(rank) << 48U) ^ (static_cast<std::uint64_t>(slot) << 32U) ^
             sequence);
}

/// Every 8 bytes differ from every other 8 of the same and of any other pattern.
inline void fill(const Tensor& tensor, std::uint64_t pattern) {
  for (std::size_t at = 0; at < tensor.bytes(); at += 8) {
    const auto word = mix(pattern + at);
    std::memcpy(tensor.data() + at, &word, std::min<std::size_t>(8, tensor.bytes() - at));
  }
}

inline bool holds(const Tensor& tensor, std::uint64_t pattern) {
  for (std::size_t at = 0; at < tensor.bytes(); at += 8) {
    const auto word = mix(pattern + at);
    if (std::memcmp(tensor.data() + at, &word, std::min<std::size_t>(8, tensor.bytes() - at)) != 0)
      return false;
  }
  return true;
}

}  // namespace weft::tests
