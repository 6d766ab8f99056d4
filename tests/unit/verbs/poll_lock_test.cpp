// The lock of a completion queue: one holder at a time, and those that poll give way.
#include "p2p/transport/verbs/poll_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::p2p::verbs {
namespace {

TEST(PollLock, IsTakenOnceByThoseThatPoll) {
  PollLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(PollLock, HasOneHolderAtATimeAndLetsInThoseThatWait) {
  PollLock lock;
  std::uint64_t guarded = 0;
  std::atomic<std::uint64_t> taken{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> polling;
  for (int i = 0; i < 2; ++i)
    polling.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        if (!lock.try_lock()) continue;
        for (int n = 0; n < 50; ++n) ++guarded;
        lock.unlock();
        taken.fetch_add(50, std::memory_order_relaxed);
      }
    });
  for (int n = 0; n < 300; ++n) {
    const std::lock_guard held(lock);
    ++guarded;
  }
  over.store(true);
  for (std::thread& thread : polling) thread.join();
  EXPECT_EQ(guarded, taken.load() + 300);
}

TEST(PollLock, IsGivenToOneThatWaitsBeforeThoseThatPoll) {
  PollLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::atomic<bool> held{false};
  std::atomic<bool> go{false};
  std::thread waits([&] {
    const std::lock_guard mine(lock);
    held.store(true);
    while (!go.load()) std::this_thread::yield();
  });
  // Once the other thread waits, the lock that was let go can't be taken by a poll.
  bool gave_way = false;
  while (!gave_way) {
    lock.unlock();
    gave_way = !lock.try_lock();
    if (!gave_way) std::this_thread::yield();
  }
  while (!held.load()) EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  go.store(true);
  waits.join();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace weft::p2p::verbs
