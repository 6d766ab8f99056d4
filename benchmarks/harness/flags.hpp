// Bare flags between processes that share memory: the cheapest hand-over there is.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace weft::bench {

/// A sequence word with a little payload on a cache line of its own. One process writes it, its
/// partners poll it; the payload is visible with the sequence that was stored after it.
struct alignas(64) FlagLine {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t payload[2];
};
static_assert(sizeof(FlagLine) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Every line that one process writes and its partners poll. All sequences start at 0.
struct FlagArea {
  FlagLine block;         ///< leader: the next block of work, in the payload; follower: read
  FlagLine filled;        ///< sender: its buffers are rewritten, the receiver may get ready
  FlagLine ready;         ///< receiver: ready, the sender may start the clock
  FlagLine announced;     ///< limit: one tensor more lies in the shared memory
  FlagLine acknowledged;  ///< receiver: it has all of them, the sender may stop the clock
  FlagLine inspected;     ///< receiver: it looks at them no more, the sender may rewrite them
  FlagLine ping;          ///< bare ping-pong; the payload is the sequence once more
  FlagLine place;         ///< receiver: its process and an address there, for the kernel's copies
  FlagLine cost;          ///< follower: what its slots cost: work requests, bytes copied
};

/// Those whose lines a process polls: a follower's leader, or a leader's followers. Not empty.
using Partners = std::vector<const FlagArea*>;

/// What a polling process does when nothing has come for a while.
struct Idle {
  unsigned polls;
  void (*act)();
};

/// Polls hard for about as long as weft's own waits do (200 us), then lets others have the core.
/// Who gives it away sooner loses it to whatever else runs on the machine.
inline constexpr Idle kYield{400'000, [] { sched_yield(); }};

inline void raise_to(FlagLine& line, std::uint64_t sequence) noexcept {
  line.sequence.store(sequence, std::memory_order_release);
}

inline void await(const FlagLine& line, std::uint64_t sequence, const Idle& idle) noexcept {
  for (unsigned polls = 0; line.sequence.load(std::memory_order_acquire) < sequence;) {
    if (++polls < idle.polls) continue;
    idle.act();
    polls = 0;
  }
}

/// Waits for that line of every partner.
inline void await_all(const Partners& partners, FlagLine FlagArea::*line, std::uint64_t sequence,
                      const Idle& idle) noexcept {
  for (const FlagArea* partner : partners) await(partner->*line, sequence, idle);
}

}  // namespace weft::bench
