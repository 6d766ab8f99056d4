#include "benchmarks/driver/launch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/soon.hpp"

namespace weft::bench {
namespace {

using std::chrono::seconds;

Outcome shell(const std::string& script) { return launch({"sh", "-c", script}, seconds(20)); }

TEST(Launch, KeepsTheTwoStreamsApartAndTheExitCode) {
  const Outcome outcome = shell("echo said; echo complained >&2; exit 3");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.output, "said\n");
  EXPECT_EQ(outcome.errors, "complained\n");
}

TEST(Launch, TakesMoreOutputThanAPipeHolds) {
  EXPECT_EQ(shell("head -c 1000000 /dev/zero").output.size(), 1000000U);
}

TEST(Launch, TellsASignalFromAnExit) { EXPECT_EQ(shell("kill -9 $$").exit_code, 128 + 9); }

TEST(Launch, SaysWhatCouldNotBeStarted) {
  const Outcome outcome = launch({"no-such-program-here"}, seconds(20));
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_NE(outcome.errors.find("no-such-program-here"), std::string::npos);
}

TEST(Launch, EndsARunThatTakesTooLong) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(launch({"sleep", "30"}, seconds(1)), std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(8));
}

/// So that a benchmark that is ended leaves no rank behind.
TEST(Launch, EndsItsProgramWhenThisProcessIsToldToEnd) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::string script =
          "echo $$ >/proc/self/fd/" + std::to_string(ends[1]) + "; exec sleep 30";
      try {
        (void)launch({"sh", "-c", script}, seconds(20));
      } catch (const std::runtime_error&) {
        ::_exit(5);
      }
      ::_exit(4);
    }
    char text[16] = {};
    ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
    ::close(ends[0]);
    ::close(ends[1]);
    ::kill(child, number);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_TRUE(tests::soon([&] { return ::kill(std::atoi(text), 0) != 0; }))
        << "the program still runs";
  }
}

TEST(FindProgram, TakesTheFirstThatIsThere) {
  const auto found = find_program({"no-such-program-here", "sh", "ls"});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->ends_with("/sh"));
  EXPECT_FALSE(find_program({"no-such-program-here"}));
}

}  // namespace
}  // namespace weft::bench
