// Who moves what was begun, and when: the set by itself, without ranks.
#include "p2p/progress/progress_registry.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace weft::p2p {
namespace {

struct Steps final : Ongoing {
  static constexpr bool kKeepsPlace = false;

  bool busy() const noexcept { return left > 0; }
  Left move(Pace) noexcept override {
    ++moved;
    if (on_move) on_move();
    if (left > 0) --left;
    return busy() ? waits_for : Left::nothing;
  }

  int left = 0;
  int moved = 0;
  Left waits_for = Left::rings;
  std::function<void()> on_move{};
};

class UnattendedTest : public testing::Test {
 protected:
  /// A call that begins so many steps.
  void begin(Steps& steps, int count) {
    const Attending attending(all_, steps);
    steps.left = count;
  }

  Doorbell bell_{};
  Unattended all_{bell_};
};

TEST_F(UnattendedTest, IsMovedUntilNothingIsLeft) {
  Steps steps;
  begin(steps, 2);
  EXPECT_EQ(all_.move(Pace::patiently), Left::rings);
  EXPECT_EQ(all_.move(Pace::patiently), Left::nothing);
  EXPECT_EQ(all_.move(Pace::patiently), Left::nothing);
  EXPECT_EQ(steps.moved, 2);
  const Attending attending(all_, steps);
}

TEST_F(UnattendedTest, IsNotMovedWhileItsThreadAttends) {
  Steps steps;
  Steps other;
  begin(steps, 3);
  begin(other, 3);
  {
    const Attending attending(all_, steps);
    EXPECT_EQ(all_.move(Pace::patiently), Left::rings);
    EXPECT_EQ(steps.moved, 0);
    EXPECT_EQ(other.moved, 1);
  }
  (void)all_.move(Pace::patiently);
  EXPECT_EQ(steps.moved, 1);
  for (Steps* each : {&steps, &other}) {
    const Attending attending(all_, *each);
    each->left = 0;
  }
}

TEST_F(UnattendedTest, SaysWhetherOneOfThemMustBeLookedAtSoon) {
  Steps rings;
  Steps silent;
  silent.waits_for = Left::silent;
  begin(silent, 2);
  begin(rings, 5);
  EXPECT_EQ(all_.move(Pace::patiently), Left::silent);
  EXPECT_EQ(all_.move(Pace::patiently), Left::rings);
  const Attending attending(all_, rings);
  rings.left = 0;
  all_.dismiss(silent);
}

TEST_F(UnattendedTest, MovesTheOthersWithinAMoveButNotThatOne) {
  Steps outer;
  Steps inner;
  begin(outer, 2);
  begin(inner, 1);
  Left within = Left::nothing;
  int moved_within = -1;
  outer.on_move = [&] {
    if (moved_within >= 0) return;
    moved_within = 0;
    within = all_.move(Pace::patiently);
    moved_within = inner.moved;
  };
  (void)all_.move(Pace::patiently);
  EXPECT_EQ(within, Left::silent);
  EXPECT_EQ(moved_within, 1);
  EXPECT_EQ(outer.moved, 1);
  for (Steps* each : {&outer, &inner}) {
    const Attending attending(all_, *each);
    each->left = 0;
  }
}

/// One that is held up, by a rank that has stopped, say, holds up none of the others.
TEST_F(UnattendedTest, IsMovedByOthersWhileAThreadIsHeldUp) {
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
  std::thread thread([&] { (void)all_.move(Pace::patiently); });
  while (!is_held) std::this_thread::yield();
  EXPECT_EQ(all_.move(Pace::patiently), Left::silent);
  EXPECT_GE(other.moved, 1);
  EXPECT_EQ(held.moved, 1);
  go_on = true;
  thread.join();
  for (Steps* each : {&held, &other}) {
    const Attending attending(all_, *each);
    each->left = 0;
  }
}

TEST_F(UnattendedTest, IsNotMovedOnceStoppedAndStoppingWaitsForWhoIsAtIt) {
  Steps steps;
  begin(steps, 5);
  std::atomic<bool> is_moving{false};
  std::atomic<bool> go_on{false};
  steps.on_move = [&] {
    is_moving = true;
    while (!go_on) std::this_thread::yield();
  };
  std::thread thread([&] { (void)all_.move(Pace::patiently); });
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
  (void)all_.move(Pace::patiently);
  EXPECT_EQ(steps.moved, moved);
  const Attending attending(all_, steps);
  steps.left = 0;
}

TEST_F(UnattendedTest, HasAPlaceForEachOfSoManyThatAreBusy) {
  std::deque<Steps> many(Unattended::kPlaces);
  for (Steps& steps : many) begin(steps, 1);
  Steps one_more;
  EXPECT_FALSE(all_.admit(one_more));
  {
    const Attending attending(all_, many[7]);
    many[7].left = 0;
  }
  EXPECT_TRUE(all_.admit(one_more));
  EXPECT_EQ(all_.move(Pace::patiently), Left::nothing);
  for (Steps& steps : many) const Attending attending(all_, steps);
  all_.dismiss(one_more);
}

TEST_F(UnattendedTest, WakesSleepersWhenSomethingIsLeft) {
  Steps steps;
  bell_.sleepers = 1;
  const auto before = bell_.word.load();
  begin(steps, 1);
  EXPECT_NE(bell_.word.load(), before);
  (void)all_.move(Pace::patiently);
  const Attending attending(all_, steps);
}

/// Counts without atomics: a sanitizer sees two threads at one of them, and so does the sum.
TEST_F(UnattendedTest, IsMovedByOneThreadAtATime) {
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
          (void)all_.move(Pace::patiently);
          const Attending attending(all_, steps);
          if (call % 2 == 0 && steps.busy()) (void)steps.move(Pace::patiently);
          over = !steps.busy();
        }
      }
      --owners;
    });
  threads.emplace_back([&] {
    while (owners > 0) (void)all_.move(Pace::patiently);
  });
  for (std::thread& thread : threads) thread.join();
  for (const Steps& steps : all_steps) EXPECT_EQ(steps.moved, kCalls * kSteps);
}

}  // namespace
}  // namespace weft::p2p
