// The status of a rank, by the time since its last sign of life.
#include "runtime/health/patience.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.hpp"
#include "base/os/process_state.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

TEST(Patience, GoesFromAliveBySlowAndSuspectToDead) {
  const Patience patience(10s);
  EXPECT_EQ(patience.period(), 500ms);
  EXPECT_EQ(patience.of_silent(1000ms), PeerHealth::alive);
  EXPECT_EQ(patience.of_silent(1500ms), PeerHealth::slow);
  EXPECT_EQ(patience.of_silent(5s), PeerHealth::suspect);
  EXPECT_EQ(patience.of_silent(9500ms), PeerHealth::suspect);
  EXPECT_EQ(patience.of_silent(10s), PeerHealth::dead);
}

TEST(Patience, SuspectsAStoppedRankAtOnce) {
  const Patience patience(10s);
  EXPECT_EQ(patience.of_stopped(500ms), PeerHealth::suspect);
  EXPECT_EQ(patience.of_stopped(10s), PeerHealth::dead);
}

TEST(Patience, WithoutEndCallsNobodyDead) {
  const Patience patience(Config().with(Setting::dead_after, "off").time(Setting::dead_after));
  EXPECT_EQ(patience.of_silent(1h), PeerHealth::suspect);
  EXPECT_EQ(patience.of_stopped(1h), PeerHealth::suspect);
}

TEST(Patience, ExcusesEverybodyAfterItsOwnPause) {
  EXPECT_FALSE(Patience::was_stopped_itself(4));
  EXPECT_TRUE(Patience::was_stopped_itself(5));
}

TEST(ProcessState, TellsAStoppedProcessFromOneThatRuns) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  EXPECT_EQ(os::process_state(child), os::ProcessState::runs);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(os::process_state(child), os::ProcessState::stopped);
  // A process that was continued in between has a larger run time, though it is stopped again.
  const std::uint64_t ran = os::time_run(child);
  EXPECT_GT(ran, 0U);
  EXPECT_EQ(os::time_run(child), ran);
  ::kill(child, SIGCONT);
  ::waitpid(child, nullptr, WCONTINUED);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_GT(os::time_run(child), ran);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(os::process_state(child), os::ProcessState::unknown);
}

}  // namespace
}  // namespace weft::detail
