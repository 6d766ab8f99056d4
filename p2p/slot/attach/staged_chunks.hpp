// How a tensor that is staged is cut into chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::p2p {

/// All chunks but the last have a word each in the owner's memory, which a chunk's put sets to the
/// next number; with the last chunk comes the tensor's own word, once all others are there. Words
/// are apart for each buffer of the slot where the owner looks at them, so that it may begin to
/// copy a tensor to its GPU before all of it has come; else one row of them serves all buffers.
struct StagedChunks {
  static constexpr std::size_t kLeastBytes = 4096;
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostWords = 4096;

  std::size_t tensor = 0;  ///< bytes
  std::size_t bytes = 0;   ///< of each chunk but the last
  std::size_t count = 1;
  std::size_t rows = 1;

  /// `wanted`: bytes of a chunk.
  static constexpr StagedChunks of(std::size_t tensor, std::size_t wanted,
                                   std::size_t rows) noexcept {
    constexpr std::size_t kGranule = 64;
    const std::size_t most = std::min(kMost, kMostWords / rows + 1);
    const std::size_t least = std::max({wanted, kLeastBytes, (tensor + most - 1) / most});
    if (least >= tensor) return {.tensor = tensor, .bytes = tensor, .count = 1, .rows = rows};
    const std::size_t bytes = (least + kGranule - 1) / kGranule * kGranule;
    return {.tensor = tensor, .bytes = bytes, .count = (tensor + bytes - 1) / bytes, .rows = rows};
  }

  std::size_t offset(std::size_t chunk) const noexcept { return chunk * bytes; }
  std::size_t bytes_of(std::size_t chunk) const noexcept {
    return std::min(bytes, tensor - offset(chunk));
  }
  /// The number of words: in a row, and in all of them.
  std::size_t words_per_row() const noexcept { return count - 1; }
  std::size_t words() const noexcept { return rows * words_per_row(); }
  std::size_t word(std::uint64_t buffer, std::size_t chunk) const noexcept {
    return buffer % rows * words_per_row() + chunk;
  }
};

}  // namespace weft::p2p
