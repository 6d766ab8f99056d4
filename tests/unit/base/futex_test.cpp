#include "base/os/futex.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"
#include "weft/deadline.hpp"

namespace weft::os {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Word = std::atomic<std::uint32_t>;

TEST(Futex, WaitsNoLongerThanItsDeadlineAndNoLess) {
  Word word{7};
  const auto start = Clock::now();
  const auto until = start + 30ms;
  int waits = 0;
  for (; Clock::now() < until; ++waits) futex_wait(word, 7, until);
  // A signal may end a wait early; without sleep there would be thousands of waits.
  EXPECT_LE(waits, 10);
  EXPECT_LT(Clock::now() - start, 15s);
}

TEST(Futex, DoesNotWaitWhenTheWordHasChanged) {
  Word word{7};
  const auto start = Clock::now();
  futex_wait(word, 6, start + 30s);
  EXPECT_LT(Clock::now() - start, 15s);
}

TEST(DeadlineTest, OfASpanBeyondTheClockIsItsLastMoment) {
  for (const auto span : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() / 2}) {
    EXPECT_FALSE(Deadline::after(span).passed());
    EXPECT_GT(Deadline::after(span).left(), std::chrono::hours(24 * 365));
  }
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds(-1)).passed());
}

TEST(DeadlineTest, AtAnyMomentHasTheTimeLeftThatItSays) {
  using std::chrono::nanoseconds;
  using Point = Clock::time_point;
  for (const Deadline past :
       {Deadline::at(Point::min()), Deadline::at(Point::min() + 1ns), Deadline::at(Point{}),
        Deadline::after(nanoseconds::min()), Deadline::after(nanoseconds::min() / 2)}) {
    EXPECT_TRUE(past.passed());
    EXPECT_LT(past.left(), 0ns);
  }
  EXPECT_EQ(Deadline::at(Point::min()).left(), nanoseconds::min());
  EXPECT_TRUE(Deadline::after(std::chrono::hours::min()).passed());
  for (const Deadline late :
       {Deadline::at(Point::max()), Deadline::after(nanoseconds::max()),
        Deadline::after(std::chrono::seconds::max()), Deadline::after(std::chrono::hours::max()),
        Deadline::after(std::chrono::hours(100'000'000))}) {
    EXPECT_FALSE(late.passed());
    EXPECT_GT(late.left(), 24h * 365);
  }
}

TEST(Futex, DoesNotWaitWhenTheDeadlineHasPassed) {
  Word word{7};
  const auto start = Clock::now();
  futex_wait(word, 7, start - 1s);
  futex_wait(word, 7, Clock::time_point{});
  futex_wait(word, 7, Clock::time_point::min());
  EXPECT_LT(Clock::now() - start, 15s);
}

TEST(Futex, WakesASleeperOfAnotherProcess) {
  const Fd file(::memfd_create("weft-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const auto memory = Mapping::shared(file, 4096);
  auto& word = *new (memory.data()) Word(0);

  const pid_t child = ::fork();
  if (child == 0) {
    const auto mine = Mapping::shared(file, 4096);  // the parent's is not there in a fork
    auto& same = *reinterpret_cast<Word*>(mine.data());
    const auto until = Clock::now() + 30s;
    while (same.load() == 0 && Clock::now() < until) futex_wait(same, 0, until);
    ::_exit(Clock::now() < until - 15s ? 0 : 1);
  }
  std::this_thread::sleep_for(20ms);  // most likely asleep by now; right either way
  word.store(1);
  futex_wake(word, 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it slept until its deadline";
}

}  // namespace
}  // namespace weft::os
