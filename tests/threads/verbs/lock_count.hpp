// Counts the mutexes that a thread locks.
#pragma once

#include <cstdint>

namespace weft::tests {

/// The number of pthread_mutex_lock calls of this thread, without those under a PassOverLocks.
/// 0 under a sanitizer, which needs those calls itself.
std::uint64_t locks() noexcept;
/// The same of pthread_mutex_trylock.
std::uint64_t try_locks() noexcept;

/// While one lives, this thread's locks are not counted, since they are the test's own.
class PassOverLocks {
 public:
  PassOverLocks() noexcept;
  ~PassOverLocks();
  PassOverLocks(const PassOverLocks&) = delete;
  PassOverLocks& operator=(const PassOverLocks&) = delete;
};

}  // namespace weft::tests
