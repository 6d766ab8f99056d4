// The words of this rank that one peer's puts set, each after its payload.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/stats/layout.hpp"
#include "p2p/transport/put_work.hpp"
#include "p2p/transport/quick_use.hpp"

namespace weft::p2p {

/// Words in this rank's control memory that the peer's puts set, each after its payload.
struct ExpectedWords {
  std::byte* words = nullptr;  ///< the first
  std::uint32_t count = 1;     ///< each `stride` bytes after the one before
  std::uint32_t stride = 0;
  /// A slot's words: set one after another, round and round, the next time to `last` + 1. Otherwise
  /// each word is set for itself, to rising values.
  bool in_turn = false;
  std::uint64_t last = 0;
  /// The peer can do without these words: they leave half of its table to those that it needs.
  bool may_lack = false;
  /// In turn, but some puts set words behind their tensors: then each value is one of the 4096
  /// above this one.
  const std::atomic<std::uint64_t>* passed = nullptr;
  /// The only memory that the payloads of these puts may go to; Channel::grant() adds a place for
  /// one word. A fabric whose NIC writes can't check it.
  std::array<MemoryRef, 2> places{};
  /// The payloads go to a GPU's memory: where a NIC writes there, what it has written is flushed
  /// before a word is set, and counted here. Null: they go to host memory.
  stats::Counter* gpu_flushes = nullptr;
};

/// The low bits of a sequence number: enough to tell it from its neighbours.
struct ShortSequence {
  static constexpr unsigned kBits = 12;
  static constexpr std::uint32_t kMask = (1U << kBits) - 1;

  std::uint32_t bits = 0;

  /// The number with these low bits that is the next above `known`.
  std::uint64_t above(std::uint64_t known) const noexcept {
    return known + 1 + ((bits - known - 1) & kMask);
  }
  /// The number with these low bits that is nearest to `known`.
  std::uint64_t near(std::uint64_t known) const noexcept {
    const std::uint64_t ahead = (bits - known) & kMask;
    return ahead <= kMask / 2 ? known + ahead : known + ahead - (kMask + 1);
  }
};

/// One peer's table: its puts name words by index, never by address. Thread-safe.
class NotificationTable {
 public:
  static constexpr int kMaxQueuePairs = 8;

  struct Options {
    std::uint32_t first = 0;         ///< index of the first word
    std::uint32_t most = 1U << 20U;  ///< words
    int queue_pairs = 1;             ///< that a put in pieces comes by
    /// arrived() and piece_arrived() are called by one thread at a time, as one that holds a lock
    /// of its own does: they take none then, unless words are added or removed at that moment.
    bool one_at_a_time = false;
  };
  NotificationTable() : NotificationTable(Options{}) {}
  explicit NotificationTable(Options options) noexcept : options_(options) {}

  /// The index of the first of the words. Throws Error(exhausted): too many are expected, or, for
  /// words that the peer can do without, more than half as many as may be.
  std::uint32_t add(const ExpectedWords& words);
  void remove(std::uint32_t index) noexcept;
  /// A put that sets this word may write there; a word that is not set in turn has one place at a
  /// time.
  void grant(std::uint32_t index, const MemoryRef& place) noexcept;

  enum class Place : std::uint8_t { granted, unknown, late, elsewhere };
  /// Whether a put for the word may write there. `late`: the word is past it, the put is obsolete.
  Place judge(std::uint32_t index, std::uint64_t sequence, const MemoryRef& place) const noexcept;
  bool expects(std::uint32_t index) const noexcept;
  /// Where flushes of payloads on a GPU are counted; null: these are in host memory.
  stats::Counter* gpu_flushes(std::uint32_t index) noexcept {
    return gpu_words_.load(std::memory_order_acquire) == 0 ? nullptr : find_gpu_flushes(index);
  }

  enum class Arrival : std::uint8_t { set, partly, unknown, out_of_turn };
  /// The payload of a put has arrived: sets its word. The caller rings the rank's doorbell
  /// afterwards, whose barrier makes the word visible to those that fall asleep.
  Arrival arrived(std::uint32_t index, std::uint64_t sequence) noexcept;
  /// The same where only the low bits of the sequence travelled.
  Arrival arrived(std::uint32_t index, ShortSequence sequence) noexcept;
  /// The same for a put in pieces, one by each queue pair: its word is set with the last piece.
  Arrival piece_arrived(std::uint32_t index, ShortSequence sequence, int queue_pair) noexcept;

 private:
  struct Word {
    std::byte* place = nullptr;  ///< null: not expected
    std::uint32_t ring = 0;      ///< words set in turn from `place` on; 0: this one alone
    std::uint32_t stride = 0;
    std::uint64_t last = 0;                              ///< in turn: the last sequence set
    const std::atomic<std::uint64_t>* passed = nullptr;  ///< as ExpectedWords has it
    std::array<MemoryRef, 2> places{};
    stats::Counter* gpu_flushes = nullptr;
    /// For puts in pieces: the last sequence that each queue pair brought.
    std::unique_ptr<std::array<std::uint64_t, kMaxQueuePairs>> brought{};
  };
  /// Excludes changes while a word is set.
  class Arriving;
  /// Excludes all else, for a change.
  class Change;
  std::uint32_t take_run(std::uint32_t count);
  stats::Counter* find_gpu_flushes(std::uint32_t index) noexcept;
  /// Null: no such word is expected.
  Word* find(std::uint32_t index) noexcept;
  const Word* find(std::uint32_t index) const noexcept;
  static Arrival set_next(Word& word, std::uint64_t sequence) noexcept;
  static void set(Word& word, std::uint64_t sequence) noexcept;
  static std::uint64_t known(const Word& word) noexcept;

  const Options options_;
  std::atomic<std::uint32_t> gpu_words_{0};  ///< expected now
  QuickUse arriving_;                        ///< with Options::one_at_a_time
  mutable std::mutex mutex_;
  std::vector<Word> words_;
  std::uint32_t used_ = 0;                       ///< indexes, in all
  std::map<std::uint32_t, std::uint32_t> runs_;  ///< in use: count by first index
  std::map<std::uint32_t, std::uint32_t> free_;  ///< below words_.size(): count by first index
};

}  // namespace weft::p2p
