// How much is sent in the benchmark wire, by weft and by the peers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

constexpr std::uint32_t kWirePings = 100;   ///< there and back, of a block
constexpr std::uint32_t kWireUnderWay = 8;  ///< tensors that may be

/// Of a block: enough for the connection to be in its stride.
constexpr std::uint32_t wire_tensors(std::size_t size) noexcept {
  constexpr std::size_t kBytes = 64u << 20;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytes / size, 16, 512));
}
/// Collectives of a block.
constexpr std::uint32_t wire_operations(std::size_t size) noexcept {
  constexpr std::size_t kBytes = 4u << 20;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytes / size, 2, 200));
}
constexpr std::uint32_t wire_blocks(const RunOptions& options) noexcept {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(options.budget.count() / 20, 5));
}

}  // namespace weft::bench
