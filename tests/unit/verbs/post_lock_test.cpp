// The lock of a queue pair's posts: one holder at a time, and nobody sleeps on once it is free.
#include "p2p/transport/verbs/post_lock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::p2p::verbs {
namespace {

TEST(PostLock, HasOneHolderAtATime) {
  PostLock lock;
  std::uint64_t guarded = 0;
  constexpr std::uint64_t kEach = 20'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        const std::lock_guard held(lock);
        ++guarded;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guarded, 4 * kEach);
}

TEST(PostLock, WakesAllThatSleepOnIt) {
  PostLock lock;
  int passed = 0;
  std::vector<std::thread> threads;
  {
    const std::lock_guard held(lock);
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        const std::lock_guard mine(lock);
        ++passed;
      });
    // Until they sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(passed, 0);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 3);
}

}  // namespace
}  // namespace weft::p2p::verbs
