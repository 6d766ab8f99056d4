#include "benchmarks/driver/launch.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

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

TEST(FindProgram, TakesTheFirstThatIsThere) {
  const auto found = find_program({"no-such-program-here", "sh", "ls"});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->ends_with("/sh"));
  EXPECT_FALSE(find_program({"no-such-program-here"}));
}

}  // namespace
}  // namespace weft::bench
