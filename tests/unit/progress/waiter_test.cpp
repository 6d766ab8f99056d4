// A wait keeps to its deadline, also while it polls.
#include "p2p/progress/waiter.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace weft::p2p {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// A poller whose polls are slow.
struct Slow final : Poller {
  explicit Slow(microseconds poll_once) : takes(poll_once) {}
  bool poll() noexcept override {
    ++polls;
    const auto until = Clock::now() + takes;
    while (Clock::now() < until) {
    }
    return false;
  }
  void poll_once() noexcept override {}
  void arm() noexcept override {}

  const microseconds takes;
  int polls = 0;
};

WaitEnd wait_in_vain(Waiter& waiter, Deadline deadline) {
  return waiter.wait([] { return false; }, [] { return false; }, deadline);
}

TEST(Waiter, LooksOnceWhereTheDeadlineIsPast) {
  for (const WaitPolicy policy : {WaitPolicy{.spin = WaitPolicy::kSpin}, WaitPolicy{}}) {
    Doorbell bell{};
    Slow slow(microseconds(0));
    Waiter waiter(bell, policy, milliseconds(100));
    waiter.add_poller(slow);
    EXPECT_EQ(wait_in_vain(waiter, Deadline::at({})), WaitEnd::timeout);
    EXPECT_EQ(slow.polls, 1);
    bool is_there = false;
    EXPECT_EQ(waiter.wait([&] { return std::exchange(is_there, true); }, [] { return false; },
                          Deadline::at({})),
              WaitEnd::ready);
    EXPECT_EQ(slow.polls, 2);
  }
}

TEST(Waiter, PollsNoLongerThanToItsDeadline) {
  Doorbell bell{};
  Slow slow(microseconds(20));
  Waiter waiter(bell, {.spin = WaitPolicy::kSpin}, milliseconds(100));
  waiter.add_poller(slow);
  EXPECT_EQ(wait_in_vain(waiter, Deadline::after(microseconds(1))), WaitEnd::timeout);
  EXPECT_LE(slow.polls, 2);
  slow.polls = 0;
  // The waiter reads the clock once in 64 polls.
  EXPECT_EQ(wait_in_vain(waiter, Deadline::after(microseconds(500))), WaitEnd::timeout);
  EXPECT_LE(slow.polls, 3 * 64);
}

TEST(Waiter, LeavesTheProcessorEarlyToWhoMayMoveWhatIsAwaited) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (unsigned cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Doorbell bell{};
  Slow sockets(microseconds(2));
  Waiter waiter(bell, {.spin = WaitPolicy::kSpin, .yielding = WaitPolicy::kYielding},
                milliseconds(100));
  waiter.add_poller(sockets, true);
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
  constexpr int kTurns = 21;
  std::thread peer([&] {  // on the same processor
    while (answered < kTurns)
      if (asked > answered)
        ++answered;
      else
        sched_yield();
  });
  std::vector<int> polls;
  for (int turn = 1; turn <= kTurns; ++turn) {
    sockets.polls = 0;
    ++asked;
    EXPECT_EQ(waiter.wait([&] { return answered == turn; }, [] { return false; },
                          Deadline::after(milliseconds(5000))),
              WaitEnd::ready);
    polls.push_back(sockets.polls);
  }
  peer.join();
  EXPECT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  std::ranges::nth_element(polls, polls.begin() + kTurns / 2);
  EXPECT_LE(polls[kTurns / 2], 64);
}

/// Counts how often a thread reads the clock.
struct CountedClock final : ClockSource {
  CountedClock() : before(set_clock_source(this)) {}
  ~CountedClock() override { set_clock_source(before); }
  Clock::time_point now() const noexcept override {
    ++reads;
    return std::chrono::steady_clock::now();
  }
  mutable int reads = 0;
  const ClockSource* const before;
};

/// Work that rings no doorbell may begin in the waiter's own look, when it is about to sleep.
TEST(Waiter, LooksAgainForSilentWorkThatItsLastLookBegan) {
  Doorbell bell{};
  Waiter waiter(bell, {}, milliseconds(100));
  Clock::time_point there{};
  const auto ready = [&] {
    if (there == Clock::time_point{} && bell.sleepers.load() > 0) {
      waiter.count_silent(1);
      there = Clock::now() + milliseconds(5);
    }
    return there != Clock::time_point{} && Clock::now() >= there;
  };
  const auto began = Clock::now();
  EXPECT_EQ(waiter.wait(
                ready, [] { return false; }, Deadline::after(std::chrono::seconds(5))),
            WaitEnd::ready);
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(2));
}

TEST(Waiter, ReadsNoClockForWhatComesWithinAFewPolls) {
  Doorbell bell{};
  Waiter waiter(bell, {.spin = WaitPolicy::kSpin}, milliseconds(100));
  struct : Poller {
    bool poll() noexcept override { return false; }
    void poll_once() noexcept override {}
    void arm() noexcept override {}
  } fabric;
  waiter.add_poller(fabric);
  const CountedClock clock;
  int looks = 0;
  EXPECT_EQ(waiter.wait([&] { return ++looks == 60; }, [] { return false; }, {}), WaitEnd::ready);
  EXPECT_EQ(clock.reads, 0);
}

TEST(Waiter, ReadsTheClockAfterASlowPoll) {
  for (const WaitPolicy policy : {WaitPolicy{.spin = WaitPolicy::kSpin},
                                  WaitPolicy{.spin = milliseconds(50)}, WaitPolicy{}}) {
    Doorbell bell{};
    std::atomic<std::uint32_t> slow_polls{0};
    Waiter waiter(bell, policy, milliseconds(100));
    waiter.watch_slow_polls(slow_polls);
    int polls = 0;
    const auto ready_helps = [&] {
      std::this_thread::sleep_for(milliseconds(2));
      ++slow_polls;
      ++polls;
      return false;
    };
    EXPECT_EQ(waiter.wait(
                  ready_helps, [] { return false; }, Deadline::after(milliseconds(10))),
              WaitEnd::timeout);
    EXPECT_LE(polls, 12);
  }
}

}  // namespace
}  // namespace weft::p2p
