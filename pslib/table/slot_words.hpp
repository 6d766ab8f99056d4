// The control words that travel beside the values of an asynchronous table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::pslib {

/// Elements that `words` words take up behind a worker's gradients or before a server's parameters,
/// in whole cache lines.
constexpr std::int64_t line_elements(std::size_t words, std::size_t element_bytes) noexcept {
  const std::size_t lines = (words * sizeof(std::uint64_t) + 63) / 64;
  return static_cast<std::int64_t>(lines * 64 / element_bytes);
}

inline std::uint64_t load_word(const std::byte* from, std::size_t index) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from + index * sizeof word, sizeof word);
  return word;
}

inline void store_word(std::byte* to, std::size_t index, std::uint64_t word) noexcept {
  std::memcpy(to + index * sizeof word, &word, sizeof word);
}

/// Words behind the gradients: the version they were computed from.
struct GradientWords {
  static constexpr std::size_t kBase = 0;
  static constexpr std::size_t kCount = 1;
};

/// Words before the parameters: their version, then a bit for each worker that contributed.
struct RegionWords {
  static constexpr std::size_t kVersion = 0;
  static constexpr std::size_t kMask = 1;
  static constexpr std::size_t count(std::size_t workers) noexcept {
    return kMask + (workers + 63) / 64;
  }
};

/// A shard's state words: 1 + the epoch in which its primary publishes it (0: this server is not
/// its primary), its version, the highest number of pushes after which a worker may pull, and for
/// each worker the last push that the shard is done with.
struct StateWords {
  static constexpr std::size_t kEpoch = 0;
  static constexpr std::size_t kVersion = 1;
  static constexpr std::size_t kPermit = 2;
  static constexpr std::size_t kDone = 3;
  static constexpr std::size_t count(std::size_t workers) noexcept { return kDone + workers; }
};

/// Words before an offered shard state: the epoch, and the number of the last record in it.
struct OfferWords {
  static constexpr std::size_t kEpoch = 0;
  static constexpr std::size_t kNumber = 1;
  static constexpr std::size_t kBytes = 2 * sizeof(std::uint64_t);
};

}  // namespace weft::pslib
