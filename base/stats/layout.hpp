// The layout of the stats segment, in which a rank shows its state to processes of the same user.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/report.hpp"

// A stats segment is a memfd named kFileName, found through /proc/PID/fd. Integers have the
// machine's byte order. Readers take no lock while the rank runs:
// - `magic` is stored last: a reader that sees it also sees header, identity and schema, which
// never change.
// - Every word is loaded whole, but two words may be of two moments, so sums over several words are
// approximate.
// - Only the first `present` entries of a section exist; `present` may grow.
// - An edge entry is reused by one edge after another. Load `generation`; if it is odd, the entry
// is being reassigned: skip it. Copy the entry and load `generation` again; if it differs, drop the
// copy. The same holds for executors, and for nodes with `number`, which is 0 meanwhile.
// - The ring's record number n lies in cell n mod capacity. A record is complete if its stamp is
// 2 (n + 1) both before and after the copy. `head` is the number of records begun so far.
// - A wait, or a failure, is complete if `since` is not 0 and the same before and after the copy.
// A recording is a copy of a stats segment in a file, with only the entries that existed;
// `recorded` says which process made it, when and why.
namespace weft::stats {

inline constexpr const char* kFileName = "weft-status";
inline constexpr std::uint64_t kMagic = 0x7461747374666577;  // the bytes "weftstat"
inline constexpr std::uint32_t kVersion = 6;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

/// Text in whole words, so that it can be read while it is written. Ends with a NUL.
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

/// A count with one writer at a time, so that adding needs no locked instruction on the data path.
class Counter {
 public:
  [[gnu::always_inline]] void add(std::uint64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void clear() noexcept { value_.store(0, std::memory_order_release); }

 private:
  Word value_{0};
};

/// The place of one part of the stats segment.
struct Section {
  std::array<char, 16> name;
  std::uint64_t offset;
  std::uint32_t entry_bytes;
  std::uint32_t capacity;              ///< number of entries
  std::atomic<std::uint32_t> present;  ///< number of entries whose pages exist
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
  failures,
  executors,
  nodes,
  recorder,
  ring,
  edges
};
inline constexpr std::size_t kSections = 12;

struct Header {
  Word magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< size of the file, most of which may be a hole
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
  std::uint64_t start_unix_ns;       ///< creation of the stats segment, on the wall clock
  std::uint64_t start_monotonic_ns;  ///< the same moment on the records' clock
  std::array<char, 64> host;
  std::array<char, 32> weft_version;
  std::array<char, 40> boot;  ///< kernel boot: its processes share CLOCK_MONOTONIC
  std::array<char, 64> job;   ///< the launcher's name of the job; empty: none
  std::array<char, 24> reserved;
};
static_assert(sizeof(SegmentIdentity) == 256);

/// The origin of a recording; all zero in a live stats segment.
struct Recorded {
  std::uint64_t unix_ns;       ///< time of the recording, on the wall clock
  std::uint64_t monotonic_ns;  ///< the same moment on the records' clock, at the recording process
  std::int32_t by_rank;        ///< the recorder: the rank itself or a peer on its host; -1: a tool
  std::int32_t by_pid;
  std::array<char, 232> why;
};
static_assert(sizeof(Recorded) == 256);

struct alignas(64) Totals {
  Word edges_shown;           ///< entries in use
  Word edges_not_shown;       ///< live edges without an entry here
  Word rejected_connections;  ///< connections that did not come from a rank of this job
};

/// `idle`: will connect on first use.
enum class PathState : std::uint32_t { joining, connected, left, failed, idle };

/// Costs of the path itself. The progress thread writes them.
struct PathCounters {
  Counter control_messages;
  Counter registrations;
  Counter rails_lost;  ///< rails that failed while others went on
  Counter rails_back;  ///< rails that came back
};

/// The path to one peer. The progress thread writes it.
struct alignas(64) PathEntry {
  std::int32_t peer;
  std::atomic<PathState> state;
  std::int32_t pid;
  std::atomic<std::uint32_t> health;  ///< a weft::PeerHealth
  WordText<8> fabric;
  PathCounters counters;
  WordText<24> condition;  ///< why the peer is slow or suspect: "stopped for 2.5 s"
  WordText<64> host;
  std::array<char, 48> reserved;
};
static_assert(sizeof(PathEntry) == 192);

/// An operation for which a thread may wait.
enum class Operation : std::uint8_t {
  none,
  join,
  leave,
  attach,
  put,         ///< a credit, or the end of an outstanding put
  wait,        ///< a tensor from a peer
  view,        ///< a newer version, in view() or get()
  next,        ///< a buffer without readers
  rendezvous,  ///< send, recv, or open
  any,         ///< wait_any
  step,        ///< an edge, in a step of an executor
  open,        ///< Collectives::open
  collective,  ///< a call of a group, plain or of a plan
  settle,      ///< Collectives::settle
  send,        ///< a message
  recv,
  probe,
  serve,   ///< the next request of any worker
  signal,  ///< a signal's value, or the answer of its owner
  count_   // not an operation
};

/// Ranks or slots that a wait names besides its peer.
inline constexpr std::size_t kAwaited = 8;
/// In `awaited` of wait_any: the other bits are a rank, not the number of a slot.
inline constexpr std::uint64_t kAwaitedRank = std::uint64_t{1} << 63U;

/// A wait of one of the rank's threads; written when the thread goes to sleep, and again when it
/// falls asleep once more if it awaits several ranks.
struct alignas(64) WaitEntry {
  Word taken;  ///< 1 while a thread uses the entry
  Word since;  ///< start of the wait (CLOCK_MONOTONIC, ns); 0: no wait
  /// Bits 0-7 operation, 8-31 peer (all ones: none, or several), 40-55 number of what it awaits
  /// beyond what the entry names; of a step: 32-39 number of the executor's entry, from 1; of all
  /// others: 32-39 number of `awaited`.
  Word what;
  Word slot;      ///< the slot's number in the records, or the group's; 0: none
  Word sequence;  ///< the sequence, or the step, waited for; 0: none
  Word until;     ///< the deadline, ns
  Word bytes;     ///< of the tensor; 0: not known
  Word tag;       ///< of a message
  Word mask;      ///< bits of the tag that count; 0: the wait has no tag, or takes every tag
  /// The ranks, all of which are needed; for wait_any and a server the numbers of the slots, or
  /// ranks with kAwaitedRank, one of which suffices.
  std::array<Word, kAwaited> awaited;
  /// The call: "all_reduce(f32[1000], sum)"; of a message: how far it is; of a slot: what its owner
  /// holds; of wait_any: the plans and messages; of a signal: its name.
  WordText<88> text;
  WordText<96> within;  ///< the table's call that waits; empty: none
};
static_assert(sizeof(WaitEntry) == 320);

/// An operation that has failed, and its outcome, which the application has not looked at.
struct alignas(64) FailureEntry {
  Word taken;     ///< 1 while the entry is in use
  Word since;     ///< when it failed (CLOCK_MONOTONIC, ns); 0: no failure
  Word what;      ///< bits 0-7 operation, 8-31 peer (all ones: none), 40-47 code
  Word slot;      ///< the slot's number in the records, or the group's; 0: none
  Word sequence;  ///< of the put, or of the group's call; 0: none
  Word count;     ///< number of such failures since
  WordText<464> text;
};
static_assert(sizeof(FailureEntry) == 512);

inline constexpr std::size_t kFailures = 16;  ///< entries; further failures are not shown

/// An executor of a graph. The thread that runs its steps writes it.
struct alignas(64) ExecutorEntry {
  Word generation;
  Word live;    ///< 0: its executor is gone
  Word begun;   ///< steps begun
  Word ended;   ///< steps that ended well
  Word failed;  ///< 1: a step failed, so the executor is over
  WordText<72> name;
};
static_assert(sizeof(ExecutorEntry) == 128);

inline constexpr std::size_t kExecutors = 16;  ///< entries; further executors are not shown

/// The name of a graph's node in the records; only with WEFT_RECORD=all.
struct alignas(64) NodeEntry {
  Word number;         ///< in the records; 0: no node
  WordText<120> name;  ///< of node and definition: "conv1 (Conv)"
};
static_assert(sizeof(NodeEntry) == 128);

/// The counters of a slot's end, in one cache line. Each word has one writer at a time.
struct alignas(64) EdgeCounters {
  Counter transfers;
  Counter bytes_moved;
  Counter bytes_copied;
  Counter work_requests;
  Counter credit_writes;
  Counter control_messages;
  Counter registrations;
  Counter credit_writes_on_demand;  ///< credit writes by the progress thread

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
            registrations.get(),
            0,
            0};
  }
};
static_assert(sizeof(EdgeCounters) == 64);

/// The counters of a slot's end that concern GPUs. Each word has one writer at a time.
struct alignas(64) GpuCounters {
  Counter staged_bytes;
  Counter device_copies;
  Counter gpu_flushes;

  void clear() noexcept {
    staged_bytes.clear();
    device_copies.clear();
    gpu_flushes.clear();
  }
  void read(TransferCounters& into) const noexcept {
    into.staged_bytes = staged_bytes.get();
    into.device_copies = device_copies.get();
    into.gpu_flushes = gpu_flushes.get();
  }
};
static_assert(sizeof(GpuCounters) == 64);

enum class EdgeState : std::uint32_t { free, attaching, live, closing };

/// The role of a group of collectives, which has an edge entry too: its transfers are calls.
inline constexpr Role kCalls = static_cast<Role>(4);
inline constexpr std::size_t kRoles = 5;  ///< weft::Role, and kCalls
/// The numbers of edges that are no slot's begin here.
inline constexpr std::uint64_t kOtherNumbers = std::uint64_t{1} << 28U;

/// One end of one slot, the messages to or from a peer, or a group of collectives. Its counters
/// have their own cache line.
struct alignas(64) EdgeEntry {
  Word generation;
  std::atomic<EdgeState> state;
  std::atomic<std::uint32_t> role;  ///< a weft::Role, or kCalls
  std::atomic<std::int32_t> peer;   ///< -1: none yet, or several
  std::uint32_t reserved;
  Word slot;     ///< the slot's number in the records
  Word pending;  ///< puts without a credit; a group's calls under way
  WordText<8> fabric;
  WordText<208> name;
  EdgeCounters counters;
  GpuCounters gpu_counters;

  TransferCounters read_counters() const noexcept {
    TransferCounters all = counters.read();
    gpu_counters.read(all);
    return all;
  }
};
static_assert(offsetof(EdgeEntry, counters) == 256 && sizeof(EdgeEntry) == 384);

struct alignas(64) RingState {
  Word head;  ///< number of records begun so far
  Word lost;  ///< records dropped because their cell was being written or already overwritten
};

/// An event of the recorder's ring.
struct Record {
  Word stamp;    ///< 2 (n + 1): record n, complete; odd: being written; 0: never written
  Word started;  ///< CLOCK_MONOTONIC, ns
  Word ended;    ///< the end; as `started` for a momentary event
  Word what;     ///< bits 0-7 event, 8-31 peer (all ones: none), 32-39 operation, 40-47 code
  Word slot;     ///< 0: none; of `node_ran` the node's number
  Word value;    ///< a sequence number, a step, a size or a chunk, depending on the event
  Word bytes;    ///< bytes moved
  Word thread;   ///< of a node: the executor's thread, 0 for the caller of run(), plus its entry <<
                 ///< 32; of a collective: bits 0-7 CollectiveKind, 8-31 this rank's place
};
static_assert(sizeof(Record) == 64);

/// The operation's name, such as "wait"; "unknown" for any other number. Likewise for the states.
std::string_view name(Operation operation) noexcept;
std::string_view name(PathState state) noexcept;
std::string_view name(EdgeState state) noexcept;
/// weft::name(), and "calls" for kCalls.
std::string_view role_name(Role role) noexcept;
/// The name of a CollectiveKind, by its number.
std::string_view collective_name(std::uint8_t kind) noexcept;

/// The names of all counters, states, operations, roles and events, one line per kind: "counters
/// transfers bytes_moved ...".
std::string schema();

}  // namespace weft::stats
