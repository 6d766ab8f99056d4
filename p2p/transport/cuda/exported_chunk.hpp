// A chunk of a GPU's memory as other processes of the host are told of it.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

namespace weft::p2p::cuda {

/// Names a chunk among all that the processes of a host have made.
struct ChunkId {
  std::int32_t process = 0;
  std::uint32_t padding = 0;
  std::uint64_t number = 0;  ///< counted by that process
  bool operator==(const ChunkId&) const = default;
  bool operator<(const ChunkId& other) const noexcept {
    return std::tie(process, number) < std::tie(other.process, other.number);
  }
};

struct ExportedChunk {
  ChunkId id;
  std::array<char, 16> gpu{};  ///< its UUID
  std::uint64_t bytes = 0;
};

}  // namespace weft::p2p::cuda
