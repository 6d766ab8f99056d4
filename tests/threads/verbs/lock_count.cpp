#include "tests/threads/verbs/lock_count.hpp"

#include <dlfcn.h>
#include <pthread.h>

namespace {

thread_local std::uint64_t lock_count = 0;
thread_local std::uint64_t try_count = 0;
thread_local int passed_over = 0;

}  // namespace

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
namespace {

using Call = int (*)(pthread_mutex_t*);

Call real(const char* name) noexcept { return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name)); }

const Call kLock = real("pthread_mutex_lock");
const Call kTryLock = real("pthread_mutex_trylock");

/// Other constructors may lock before this file's have run.
int call(Call known, const char* name, pthread_mutex_t* mutex) noexcept {
  return (known != nullptr ? known : real(name))(mutex);
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (passed_over == 0) ++lock_count;
  return call(kLock, "pthread_mutex_lock", mutex);
}
extern "C" int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (passed_over == 0) ++try_count;
  return call(kTryLock, "pthread_mutex_trylock", mutex);
}
#endif

namespace weft::tests {

std::uint64_t locks() noexcept { return lock_count; }
std::uint64_t try_locks() noexcept { return try_count; }

PassOverLocks::PassOverLocks() noexcept { ++passed_over; }
PassOverLocks::~PassOverLocks() { --passed_over; }

}  // namespace weft::tests
