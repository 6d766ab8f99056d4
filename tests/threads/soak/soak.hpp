// A soak test: after `count` operations, `count` more take no further memory, descriptors or
// threads.
#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/seeds.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {

inline std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// The resources that this process holds; its ranks are threads of the process.
struct Holdings {
  std::size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd;
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");
};

/// One operation: rank 0's part and rank 1's; both know its number.
using Operation = std::function<void(World& world, int number)>;
/// Makes the objects that the operations share, once for each rank.
using Begin = std::function<Operation(World& world, Meeting& meeting)>;

inline int count_of(int usual) {
  return std::getenv("WEFT_TEST_FULL") != nullptr ? 1'000'000 : usual;
}

inline void soak(int count, const Begin& begin) {
  // Bounded memory (a ring of the last events, names kept for a while) may fill up first.
  constexpr std::size_t kSlack = 1 << 20;
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    {
      const Operation operation = begin(world, meeting);
      for (int i = 0; i < count; ++i) operation(world, i);
      meeting.wait();
      const Holdings before;
      meeting.wait();
      for (int i = 0; i < count; ++i) operation(world, count + i);
      meeting.wait();
      Holdings after;
      // The outstanding work of progress threads holds memory too, on a busy machine for some
      // seconds.
      const auto has_settled = [&] {
        after = Holdings();
        return after.heap < before.heap + kSlack;
      };
      (void)soon(has_settled, std::chrono::seconds(10));
      meeting.wait();
      if (world.rank() == 0) {
        EXPECT_LT(after.heap, before.heap + kSlack) << count << " operations";
        // The last operation's connection may be closed a moment later.
        EXPECT_LE(after.descriptors, before.descriptors + 4) << count << " operations";
        EXPECT_LE(after.threads, before.threads);
      }
    }
    EXPECT_TRUE(world.leave().ok());
  });
}

}  // namespace weft::tests
