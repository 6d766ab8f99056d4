// Amounts sent in the benchmark wire, by weft and by the peers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

constexpr std::uint32_t kWirePings = 100;   ///< round trips per block
constexpr std::uint32_t kWireUnderWay = 8;  ///< most tensors under way

/// Tensors per block: enough for a connection to reach its full rate.
constexpr std::uint32_t wire_tensors(std::size_t size) noexcept {
  constexpr std::size_t kBytes = 64u << 20;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytes / size, 16, 512));
}
/// Collectives per block, after one that is not timed: what ran before has taken the caches, in
/// some programs more than in others.
constexpr std::uint32_t wire_operations(std::size_t size) noexcept {
  constexpr std::size_t kBytes = 32u << 20;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytes / size, 4, 200));
}
constexpr std::uint32_t wire_blocks(const RunOptions& options) noexcept {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(options.budget.count() / 20, 5));
}

}  // namespace weft::bench
