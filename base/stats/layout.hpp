// The stats segment's layout: what a rank shows of itself to any process of the same user.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/report.hpp"

// A stats segment is a memfd named kFileName, found through /proc/PID/fd. All integers are the
// machine's. It is read without a lock, while its rank runs:
// - `magic` is stored last: who sees it sees header, identity and schema, which never change.
// - Every word is loaded whole. Two words are of two moments: a reader that wants a sum takes what
//   it gets.
// - Only the first `present` entries of a section are there; `present` may grow.
// - An edge entry is given to one edge after another. Load `generation`; odd: it is changing hands,
//   skip it. Copy, load `generation` again; not the same: drop the copy.
// - A record is whole if its stamp is 2 (n + 1), for the ring's n-th record, before and after the
//   copy. It lies in cell n mod capacity; `head` records were begun so far.
// - A wait is whole if `since` is not 0 and the same before and after the copy.
// A recording is a stats segment that was copied into a file, with as many entries as there were;
// its `recorded` says who made it, when and why.
namespace weft::stats {

inline constexpr const char* kFileName = "weft-status";
inline constexpr std::uint64_t kMagic = 0x7461747374666577;  // the bytes "weftstat"
inline constexpr std::uint32_t kVersion = 2;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

/// Text in whole words, so that it can be read while it is written; ends with a NUL.
template <std::size_t N>
struct WordText {
  static_assert(N % sizeof(Word) == 0);
  std::array<Word, N / sizeof(Word)> words;

  void set(std::string_view text) noexcept {
    text = text.substr(0, N - 1);
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint64_t word = 0;
      for (std::size_t at = 0; at < 8 && 8 * i + at < text.size(); ++at)
        word |= std::uint64_t{static_cast<unsigned char>(text[8 * i + at])} << (8 * at);
      words[i].store(word, std::memory_order_release);
    }
  }
  std::string get() const {
    std::string text;
    for (const Word& w : words)
      for (std::uint64_t word = w.load(std::memory_order_acquire), at = 0; at < 8; ++at)
        text += static_cast<char>(word >> (8 * at));
    return text.substr(0, text.find('\0'));
  }
};

/// One count with one writer at a time: no locked instruction on the data path.
class Counter {
 public:
  void add(std::uint64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void clear() noexcept { value_.store(0, std::memory_order_release); }

 private:
  Word value_{0};
};

/// Where a part of the stats segment lies.
struct Section {
  std::array<char, 16> name;
  std::uint64_t offset;
  std::uint32_t entry_bytes;
  std::uint32_t capacity;              ///< entries
  std::atomic<std::uint32_t> present;  ///< entries whose pages exist
  std::uint32_t reserved;
};
static_assert(sizeof(Section) == 40);

enum class SectionIndex : std::uint8_t {
  identity,
  schema,
  recorded,
  totals,
  paths,
  waits,
  recorder,
  ring,
  edges
};
inline constexpr std::size_t kSections = 9;

struct Header {
  Word magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< of the file, most of which may be a hole
  std::uint32_t section_count;
  std::uint32_t section_bytes;
  std::array<Section, kSections> sections;
};
static_assert(sizeof(Header) == 32 + kSections * 40);

struct SegmentIdentity {
  std::int32_t rank;
  std::int32_t size;
  std::int32_t pid;
  std::uint32_t uid;
  std::uint64_t start_unix_ns;       ///< when the stats segment was made, on the wall clock
  std::uint64_t start_monotonic_ns;  ///< the same moment on the clock of the records
  std::array<char, 64> host;
  std::array<char, 32> weft_version;
  std::array<char, 40> boot;  ///< of the kernel: its processes share CLOCK_MONOTONIC
  std::array<char, 64> job;   ///< as the launcher names it; empty: it does not
  std::array<char, 24> reserved;
};
static_assert(sizeof(SegmentIdentity) == 256);

/// Of a recording; all zero on a living stats segment.
struct Recorded {
  std::uint64_t unix_ns;       ///< when, on the wall clock
  std::uint64_t monotonic_ns;  ///< the same moment on the clock of the records, as its maker has it
  std::int32_t by_rank;        ///< who: the rank itself, a peer of its host, -1 for a tool
  std::int32_t by_pid;
  std::array<char, 232> why;
};
static_assert(sizeof(Recorded) == 256);

struct alignas(64) Totals {
  Word edges_shown;           ///< entries in use
  Word edges_not_shown;       ///< edges that live now, but have no entry here
  Word rejected_connections;  ///< connections that proved to be no rank's of this job
};

/// `idle`: connects on first use.
enum class PathState : std::uint32_t { joining, connected, left, failed, idle };

/// What a path cost by itself. The progress thread writes it.
struct PathCounters {
  Counter control_messages;
  Counter registrations;
};

/// The path to one peer. The progress thread writes it.
struct alignas(64) PathEntry {
  std::int32_t peer;
  std::atomic<PathState> state;
  std::int32_t pid;
  std::atomic<std::uint32_t> health;  ///< a weft::PeerHealth
  WordText<8> fabric;
  PathCounters counters;
  WordText<24> condition;  ///< why it is slow or suspect: "stopped for 2.5 s"
  WordText<64> host;
};
static_assert(sizeof(PathEntry) == 128);

/// What a thread may wait for.
enum class Operation : std::uint8_t {
  none,
  join,
  leave,
  attach,
  put,         ///< a credit, or the end of a put under way
  wait,        ///< a tensor that a peer puts
  view,        ///< a newer version: view() or get()
  next,        ///< a buffer that no reader views
  rendezvous,  ///< send, recv, or all of them to meet
  any,         ///< wait_any
  count_       // not an operation
};

/// A thread of the rank that sleeps for something; written when it goes to sleep, not before.
struct alignas(64) WaitEntry {
  Word taken;     ///< the entry is a thread's
  Word since;     ///< when the wait began (CLOCK_MONOTONIC, ns); 0: nobody waits
  Word what;      ///< bits 0-7 operation, 8-31 peer (all ones: none, or several)
  Word slot;      ///< its number in the records; 0: none
  Word sequence;  ///< what is waited for; 0: it has no number
  Word until;     ///< the deadline, ns
};
static_assert(sizeof(WaitEntry) == 64);

/// A slot end's counts, a cache line. Each word has one writer at a time.
struct alignas(64) EdgeCounters {
  Counter transfers;
  Counter bytes_moved;
  Counter bytes_copied;
  Counter work_requests;
  Counter credit_writes;
  Counter control_messages;
  Counter registrations;
  Counter credit_writes_on_demand;  ///< those that the progress thread made

  void clear() noexcept {
    for (Counter* counter :
         {&transfers, &bytes_moved, &bytes_copied, &work_requests, &credit_writes,
          &control_messages, &registrations, &credit_writes_on_demand})
      counter->clear();
  }
  TransferCounters read() const noexcept {
    return {transfers.get(),
            bytes_moved.get(),
            bytes_copied.get(),
            work_requests.get(),
            credit_writes.get() + credit_writes_on_demand.get(),
            control_messages.get(),
            registrations.get()};
  }
};
static_assert(sizeof(EdgeCounters) == 64);

enum class EdgeState : std::uint32_t { free, attaching, live, closing };

/// One end of one slot. Its counters have a cache line of their own.
struct alignas(64) EdgeEntry {
  Word generation;
  std::atomic<EdgeState> state;
  std::atomic<std::uint32_t> role;  ///< a weft::Role
  std::atomic<std::int32_t> peer;   ///< -1: none yet, or many
  std::uint32_t reserved;
  Word slot;     ///< its number in the records
  Word pending;  ///< operations asked for and not begun: puts without a credit
  WordText<8> fabric;
  WordText<208> name;
  EdgeCounters counters;
};
static_assert(offsetof(EdgeEntry, counters) == 256 && sizeof(EdgeEntry) == 320);

struct alignas(64) RingState {
  Word head;  ///< records begun so far
  Word lost;  ///< begun, but given up: their cell was being written or already overwritten
};

/// An event of the recorder's ring.
struct Record {
  Word stamp;    ///< 2 (n + 1): the n-th record, whole; odd: being written; 0: never written
  Word started;  ///< CLOCK_MONOTONIC, ns
  Word ended;    ///< the same, unless it took time
  Word what;     ///< bits 0-7 event, 8-31 peer (all ones: none), 32-39 operation, 40-47 code
  Word slot;     ///< 0: none
  Word value;    ///< a sequence number, a size, a chunk: as the event has it
  Word bytes;    ///< that were moved
  Word reserved;
};
static_assert(sizeof(Record) == 64);

/// "wait"; "unknown" for a number that is none. The same for the states.
std::string_view name(Operation operation) noexcept;
std::string_view name(PathState state) noexcept;
std::string_view name(EdgeState state) noexcept;

/// Words for what the numbers stand for, one line each: "counters transfers bytes_moved ...".
std::string schema();

}  // namespace weft::stats
