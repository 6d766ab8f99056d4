// Which thread makes progress on background operations, and when: the registry by itself, without
// ranks.
#include "p2p/progress/progress_registry.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace weft::p2p {
namespace {

struct Steps final : Progressable {
  static constexpr bool kKeepsSlot = false;

  bool busy() const noexcept { return left > 0; }
  ProgressResult progress(bool) noexcept override {
    ++moved;
    if (on_move) on_move();
    if (left > 0) --left;
    return busy() ? waits_for : ProgressResult::done;
  }

  int left = 0;
  int moved = 0;
  ProgressResult waits_for = ProgressResult::notified;
  std::function<void()> on_move{};
};

class ProgressRegistryTest : public testing::Test {
 protected:
  /// A call that starts `count` steps.
  void begin(Steps& steps, int count) {
    const ScopedOwner owner(all_, steps);
    steps.left = count;
  }

  Doorbell bell_{};
  ProgressRegistry all_{bell_};
};

TEST_F(ProgressRegistryTest, IsMovedUntilNothingIsLeft) {
  Steps steps;
  begin(steps, 2);
  EXPECT_EQ(all_.progress(true), ProgressResult::notified);
  EXPECT_EQ(all_.progress(true), ProgressResult::done);
  EXPECT_EQ(all_.progress(true), ProgressResult::done);
  EXPECT_EQ(steps.moved, 2);
  const ScopedOwner owner(all_, steps);
}

TEST_F(ProgressRegistryTest, IsNotMovedWhileItsThreadAttends) {
  Steps steps;
  Steps other;
  begin(steps, 3);
  begin(other, 3);
  {
    const ScopedOwner owner(all_, steps);
    EXPECT_EQ(all_.progress(true), ProgressResult::notified);
    EXPECT_EQ(steps.moved, 0);
    EXPECT_EQ(other.moved, 1);
  }
  (void)all_.progress(true);
  EXPECT_EQ(steps.moved, 1);
  for (Steps* each : {&steps, &other}) {
    const ScopedOwner owner(all_, *each);
    each->left = 0;
  }
}

TEST_F(ProgressRegistryTest, SaysWhetherOneOfThemMustBeLookedAtSoon) {
  Steps rings;
  Steps silent;
  silent.waits_for = ProgressResult::needs_poll;
  begin(silent, 2);
  begin(rings, 5);
  EXPECT_EQ(all_.progress(true), ProgressResult::needs_poll);
  EXPECT_EQ(all_.progress(true), ProgressResult::notified);
  const ScopedOwner owner(all_, rings);
  rings.left = 0;
  all_.dismiss(silent);
}

TEST_F(ProgressRegistryTest, MovesTheOthersWithinAMoveButNotThatOne) {
  Steps outer;
  Steps inner;
  begin(outer, 2);
  begin(inner, 1);
  ProgressResult within = ProgressResult::done;
  int moved_within = -1;
  outer.on_move = [&] {
    if (moved_within >= 0) return;
    moved_within = 0;
    within = all_.progress(true);
    moved_within = inner.moved;
  };
  (void)all_.progress(true);
  EXPECT_EQ(within, ProgressResult::needs_poll);
  EXPECT_EQ(moved_within, 1);
  EXPECT_EQ(outer.moved, 1);
  for (Steps* each : {&outer, &inner}) {
    const ScopedOwner owner(all_, *each);
    each->left = 0;
  }
}

/// An operation that is held up, for example by a stopped rank, holds up none of the others.
TEST_F(ProgressRegistryTest, IsMovedByOthersWhileAThreadIsHeldUp) {
  Steps held;
  Steps other;
  begin(held, 1);
  begin(other, 2);
  std::atomic<bool> is_held{false};
  std::atomic<bool> go_on{false};
  held.on_move = [&] {
    is_held = true;
    while (!go_on) std::this_thread::yield();
  };
  std::thread thread([&] { (void)all_.progress(true); });
  while (!is_held) std::this_thread::yield();
  EXPECT_EQ(all_.progress(true), ProgressResult::needs_poll);
  EXPECT_GE(other.moved, 1);
  EXPECT_EQ(held.moved, 1);
  go_on = true;
  thread.join();
  for (Steps* each : {&held, &other}) {
    const ScopedOwner owner(all_, *each);
    each->left = 0;
  }
}

TEST_F(ProgressRegistryTest, IsNotMovedOnceStoppedAndStoppingWaitsForWhoIsAtIt) {
  Steps steps;
  begin(steps, 5);
  std::atomic<bool> is_moving{false};
  std::atomic<bool> go_on{false};
  steps.on_move = [&] {
    is_moving = true;
    while (!go_on) std::this_thread::yield();
  };
  std::thread thread([&] { (void)all_.progress(true); });
  while (!is_moving) std::this_thread::yield();
  std::atomic<bool> has_stopped{false};
  std::thread stopper([&] {
    all_.stop();
    has_stopped = true;
  });
  EXPECT_FALSE(has_stopped);
  go_on = true;
  stopper.join();
  thread.join();
  const int moved = steps.moved;
  (void)all_.progress(true);
  EXPECT_EQ(steps.moved, moved);
  const ScopedOwner owner(all_, steps);
  steps.left = 0;
}

TEST_F(ProgressRegistryTest, HasAPlaceForEachOfSoManyThatAreBusy) {
  std::deque<Steps> many(ProgressRegistry::kPlaces);
  for (Steps& steps : many) begin(steps, 1);
  Steps one_more;
  EXPECT_FALSE(all_.admit(one_more));
  {
    const ScopedOwner owner(all_, many[7]);
    many[7].left = 0;
  }
  EXPECT_TRUE(all_.admit(one_more));
  EXPECT_EQ(all_.progress(true), ProgressResult::done);
  for (Steps& steps : many) const ScopedOwner owner(all_, steps);
  all_.dismiss(one_more);
}

TEST_F(ProgressRegistryTest, WakesSleepersWhenSomethingIsLeft) {
  Steps steps;
  bell_.sleepers = 1;
  const auto before = bell_.word.load();
  begin(steps, 1);
  EXPECT_NE(bell_.word.load(), before);
  (void)all_.progress(true);
  const ScopedOwner owner(all_, steps);
}

/// Counts without atomics: if two threads moved one operation at once, a sanitizer would report it
/// and the sum would be wrong.
TEST_F(ProgressRegistryTest, IsMovedByOneThreadAtATime) {
  constexpr int kOwners = 3;
  constexpr int kCalls = 3000;
  constexpr int kSteps = 4;
  std::deque<Steps> all_steps(kOwners);
  std::atomic<int> owners{kOwners};
  std::vector<std::thread> threads;
  for (Steps& steps : all_steps)
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        begin(steps, kSteps);
        for (bool over = false; !over;) {
          (void)all_.progress(true);
          const ScopedOwner owner(all_, steps);
          if (call % 2 == 0 && steps.busy()) (void)steps.progress(true);
          over = !steps.busy();
        }
      }
      --owners;
    });
  threads.emplace_back([&] {
    while (owners > 0) (void)all_.progress(true);
  });
  for (std::thread& thread : threads) thread.join();
  for (const Steps& steps : all_steps) EXPECT_EQ(steps.moved, kCalls * kSteps);
}

}  // namespace
}  // namespace weft::p2p
