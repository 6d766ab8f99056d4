#include "base/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/config.hpp"
#include "tests/support/errors.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

using tests::TempFolder;

Config levels(std::string_view text) { return Config().with(Setting::log, text); }

Config into(const std::filesystem::path& file) {
  return levels("info").with(Setting::log_file, file.string());
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string refusal(const std::filesystem::path& file) {
  return weft::tests::refusal_of(Code::bad_config, [&] { const Log log(into(file), "a", 0); });
}

TEST(Log, WritesHostRankLevelSubsystemAndTextToStderr) {
  testing::internal::CaptureStderr();
  Log log(levels("info"), "node%7", 3);
  log.info(Subsystem::path, "peer {} by {}", 1, "shm");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft[node%7:3] info path: peer 1 by shm\n");
}

TEST(Log, ShowsThatTheRankIsNotKnownYet) {
  testing::internal::CaptureStderr();
  Log(Config(), "a", -1).error(Subsystem::boot, "no launcher");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft[a:-] error boot: no launcher\n");
}

TEST(Log, WritesOnlyFromTheLevelOn) {
  testing::internal::CaptureStderr();
  Log log(levels("warn"), "a", 0);
  log.debug(Subsystem::slot, "1");
  log.info(Subsystem::slot, "2");
  log.warn(Subsystem::slot, "3");
  log.error(Subsystem::slot, "4");
  log.write(LogLevel::info, Subsystem::slot, "5");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weft[a:0] warning slot: 3\nweft[a:0] error slot: 4\n");
}

TEST(Log, WritesNothingWhenOff) {
  testing::internal::CaptureStderr();
  Log(levels("off"), "a", 0).error(Subsystem::slot, "unheard");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Log, LetsASubsystemHaveALevelOfItsOwnWhereverItIsNamed) {
  for (const auto* const text : {"error,debug:slot", "debug:slot,error"}) {
    const Log log(levels(text), "a", 0);
    EXPECT_TRUE(log.enabled(LogLevel::debug, Subsystem::slot)) << text;
    EXPECT_FALSE(log.enabled(LogLevel::trace, Subsystem::slot)) << text;
    EXPECT_FALSE(log.enabled(LogLevel::warn, Subsystem::arena)) << text;
    EXPECT_TRUE(log.enabled(LogLevel::error, Subsystem::arena)) << text;
  }
  const Log log(levels("debug:slot"), "a", 0);
  EXPECT_TRUE(log.enabled(LogLevel::warn, Subsystem::ps));
  EXPECT_FALSE(log.enabled(LogLevel::info, Subsystem::ps));
}

TEST(Log, RefusesLevelsAndSubsystemsThatItDoesNotKnow) {
  for (const auto* const text :
       {"loud", "info:kitchen", "", "info,", ",info", "info:", ":slot", "info slot", "INFO"}) {
    try {
      static_cast<void>(levels(text));
      ADD_FAILURE() << '"' << text << "\" was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_config);
      EXPECT_NE(error.detail().hint.find("trace, debug, info, warn, error, off"),
                std::string::npos);
      EXPECT_NE(error.detail().hint.find("boot, arena, path, slot, progress, ps, tool"),
                std::string::npos);
    }
  }
}

TEST(Log, KeepsTheLevelsOfTwoWorldsApart) {
  const Log quiet(levels("off"), "a", 0);
  const Log loud(levels("trace"), "a", 1);
  EXPECT_FALSE(quiet.enabled(LogLevel::error, Subsystem::boot));
  EXPECT_TRUE(loud.enabled(LogLevel::trace, Subsystem::boot));
}

TEST(LogFile, IsNamedAfterHostProcessAndRank) {
  const TempFolder folder;
  Log(into(folder.path() / "%h.%p.%r.%%"), "node", 5).info(Subsystem::tool, "here");
  const auto file = folder.path() / ("node." + std::to_string(::getpid()) + ".5.%");
  EXPECT_EQ(lines_of(file), std::vector<std::string>{"weft[node:5] info tool: here"});
}

TEST(LogFile, IsAppendedTo) {
  const TempFolder folder;
  const auto file = folder.path() / "log";
  for (int rank = 0; rank < 2; ++rank) Log(into(file), "a", rank).info(Subsystem::tool, "here");
  EXPECT_EQ(lines_of(file).size(), 2U);
}

TEST(LogFile, GivesWayToStderrOnceItCannotBeWritten) {
  testing::internal::CaptureStderr();
  Log log(into("/dev/full"), "node", 3);
  log.info(Subsystem::path, "one");
  log.info(Subsystem::path, "two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weft: WEFT_LOG_FILE=/dev/full can't be written: No space left on device; from here on "
            "its lines go to stderr\nweft[node:3] info path: one\nweft[node:3] info path: two\n");
}

TEST(LogFile, MustHaveAFolder) {
  const TempFolder folder;
  const auto file = folder.path() / "none" / "%r";
  const auto line = refusal(file);
  EXPECT_NE(line.find("WEFT_LOG_FILE=\"" + file.string() + '"'), std::string::npos) << line;
  EXPECT_NE(line.find("none/0: No such file or directory"), std::string::npos) << line;
}

TEST(LogFile, RefusesAPercentThatStandsForNothing) {
  EXPECT_NE(refusal("/tmp/%q").find("%h stands for the host"), std::string::npos);
  EXPECT_NE(refusal("/tmp/log%").find("%h stands for the host"), std::string::npos);
}

TEST(LogFile, KeepsLongLinesOfSeveralRanksWhole) {
  constexpr int kRanks = 4;
  constexpr int kLines = 50;
  constexpr std::size_t kLong = 20000;
  const TempFolder folder;
  const auto file = folder.path() / "log";
  std::vector<std::thread> ranks;
  ranks.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      Log log(into(file), "a", rank);
      const std::string text(kLong, static_cast<char>('a' + rank));
      for (int i = 0; i < kLines; ++i) log.info(Subsystem::ps, "{}", text);
    });
  for (auto& rank : ranks) rank.join();

  std::map<std::string, int> counts;
  for (const auto& line : lines_of(file)) ++counts[line];
  EXPECT_EQ(counts.size(), static_cast<std::size_t>(kRanks));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(counts["weft[a:" + std::to_string(rank) +
                     "] info ps: " + std::string(kLong, static_cast<char>('a' + rank))],
              kLines);
}

}  // namespace
}  // namespace weft
