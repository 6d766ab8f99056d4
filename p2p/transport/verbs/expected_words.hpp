// What a peer's immediates stand for: the words of this rank that its puts set.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "p2p/transport/fabric.hpp"
#include "p2p/transport/verbs/immediate.hpp"

namespace weft::p2p::verbs {

/// One peer's table. Thread-safe.
class ExpectedWordsTable {
 public:
  static constexpr int kMaxQueuePairs = 8;

  /// `queue_pairs`: by how many a put in pieces comes.
  explicit ExpectedWordsTable(int queue_pairs) noexcept : queue_pairs_(queue_pairs) {}

  /// Throws Error(exhausted) when there are more words than an immediate can name.
  std::uint32_t add(const ExpectedWords& words);
  void remove(std::uint32_t notification_id) noexcept;

  enum class Arrival : std::uint8_t { set, partly, unknown, out_of_turn };
  /// A put has arrived by a queue pair: its word is set once all of it is there.
  Arrival arrived(Immediate immediate, int queue_pair) noexcept;

 private:
  struct Word {
    std::byte* place = nullptr;  ///< null: not expected
    std::uint32_t ring = 0;      ///< words set in turn from `place` on; 0: this one alone
    std::uint32_t stride = 0;
    std::uint64_t last = 0;  ///< in turn: the last sequence that was set
    const std::atomic<std::uint64_t>* passed = nullptr;  ///< as ExpectedWords has it
    /// Of puts in pieces: the last sequence that each queue pair brought.
    std::unique_ptr<std::array<std::uint64_t, kMaxQueuePairs>> brought;
  };
  std::uint32_t free_run(std::uint32_t count);
  static void set(Word& word, std::uint64_t sequence) noexcept;
  static std::uint64_t known(const Word& word) noexcept;

  const int queue_pairs_;
  std::mutex mutex_;
  std::vector<Word> words_;
  std::map<std::uint32_t, std::uint32_t> runs_;       ///< in use: count by first index
  std::multimap<std::uint32_t, std::uint32_t> free_;  ///< first index by count
};

}  // namespace weft::p2p::verbs
