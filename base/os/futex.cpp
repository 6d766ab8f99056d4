#include "base/os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace weft::os {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point until) noexcept {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  // The kernel refuses times before its clock's zero; a deadline that passed long ago may be one.
  const nanoseconds when = std::max<nanoseconds>(until.time_since_epoch(), nanoseconds(0));
  const auto whole = std::chrono::duration_cast<seconds>(when);
  timespec deadline{};
  deadline.tv_sec = whole.count();
  deadline.tv_nsec = (when - whole).count();
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is steady_clock's. There is
  // no FUTEX_PRIVATE_FLAG because sleeper and waker may be different processes.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &deadline, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace weft::os
