// The words of this rank that a peer's puts set.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "p2p/transport/fabric.hpp"

namespace weft::p2p::tcp {

/// One peer's table: its puts name words by index, never by address. Thread-safe.
class WordTable {
 public:
  static constexpr std::uint32_t kMostWords = 1U << 20;

  /// The first of `words`' indexes. Throws Error(exhausted).
  std::uint32_t add(const ExpectedWords& words);
  void remove(std::uint32_t first) noexcept;

  enum class Arrival : std::uint8_t { set, unknown, out_of_turn };
  /// Sets the word, once its payload is there.
  Arrival arrived(std::uint32_t index, std::uint64_t sequence) noexcept;
  bool expects(std::uint32_t index) const noexcept;
  /// A put that sets this word may write there; one that is not set in turn has one place at a
  /// time.
  void grant(std::uint32_t index, const MemoryRef& place) noexcept;
  enum class Place : std::uint8_t { granted, unknown, late, elsewhere };
  /// Whether a put for the word may write there. `late`: the word is past it, nobody wants it.
  Place judge(std::uint32_t index, std::uint64_t sequence, const MemoryRef& place) const noexcept;

 private:
  struct Word {
    std::byte* place = nullptr;  ///< null: not expected
    std::uint32_t ring = 0;      ///< words set in turn from `place` on; 0: this one alone
    std::uint32_t stride = 0;
    std::uint64_t last = 0;  ///< in turn: the last sequence that was set
    std::array<MemoryRef, 2> places{};
  };
  std::uint32_t take_run(std::uint32_t count);

  mutable std::mutex mutex_;
  std::vector<Word> words_;
  std::map<std::uint32_t, std::uint32_t> runs_;  ///< in use: count by first index
  std::map<std::uint32_t, std::uint32_t> free_;  ///< below words_.size(): count by first index
};

}  // namespace weft::p2p::tcp
