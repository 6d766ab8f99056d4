// Bare flags between processes that share memory: the cheapest synchronization there is.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace weft::bench {

/// A sequence word with a small payload, on a cache line of its own. One process writes the line
/// and its partners poll it; the payload is visible with the sequence stored after it.
struct alignas(64) FlagLine {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t payload[2];
};
static_assert(sizeof(FlagLine) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The lines that one process writes and its partners poll. All sequences start at 0.
struct FlagArea {
  FlagLine block;         ///< leader: the next block, in the payload; follower: block read
  FlagLine filled;        ///< sender: buffers rewritten, the receiver may prepare
  FlagLine ready;         ///< receiver: prepared, the sender may start the clock
  FlagLine announced;     ///< limit: one more tensor lies in the shared memory
  FlagLine acknowledged;  ///< receiver: has all tensors, the sender may stop the clock
  FlagLine inspected;     ///< receiver: done with the tensors, the sender may rewrite them
  FlagLine ping;          ///< bare ping-pong; the payload repeats the sequence
  FlagLine place;         ///< receiver: its pid and an address there, for kernel copies
  FlagLine cost;          ///< follower: cost of its slots: work requests, bytes copied
};

/// The areas that a process polls: its leader's, or its followers'. Not empty.
using Partners = std::vector<const FlagArea*>;

/// How to poll: call `act` after every `polls` unsuccessful polls.
struct Idle {
  unsigned polls;
  void (*act)();
};

/// Polls for about as long as weft's own waits (200 us), then yields the core. Yielding sooner
/// would lose the core to other processes of the machine.
inline constexpr Idle kYield{400'000, [] { sched_yield(); }};

inline void raise_to(FlagLine& line, std::uint64_t sequence) noexcept {
  line.sequence.store(sequence, std::memory_order_release);
}

/// How long this process waits for a partner at most: 60 s, unless it is set before the first wait.
void set_patience(std::chrono::nanoseconds limit) noexcept;
std::chrono::steady_clock::time_point end_of_patience() noexcept;
/// Ends the process, with a line on stderr.
[[noreturn]] void end_without_partner() noexcept;

/// Waits for a partner. If the partner is gone, the process ends when its patience does.
inline void await(const FlagLine& line, std::uint64_t sequence, const Idle& idle) noexcept {
  std::chrono::steady_clock::time_point end{};  // no wait that polls needs a clock
  for (unsigned polls = 0; line.sequence.load(std::memory_order_acquire) < sequence;) {
    if (++polls < idle.polls) continue;
    idle.act();
    polls = 0;
    if (end == std::chrono::steady_clock::time_point{})
      end = end_of_patience();
    else if (std::chrono::steady_clock::now() > end)
      end_without_partner();
  }
}

/// Waits for the given line of every partner.
inline void await_all(const Partners& partners, FlagLine FlagArea::*line, std::uint64_t sequence,
                      const Idle& idle) noexcept {
  for (const FlagArea* partner : partners) await(partner->*line, sequence, idle);
}

}  // namespace weft::bench
