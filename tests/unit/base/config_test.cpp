#include "base/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/log_levels.hpp"
#include "tests/support/errors.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

Config read(const std::vector<std::string>& entries) {
  std::vector<const char*> environment;
  environment.reserve(entries.size() + 1);
  for (const auto& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  return Config::read(environment.data());
}

std::string refusal(const std::string& entry) {
  return weft::tests::refusal_of(Code::bad_config, [&] { static_cast<void>(read({entry})); });
}

TEST(Config, HoldsEveryDefaultWhereTheEnvironmentSaysNothing) {
  const auto config = read({"PATH=/bin", "HOME=/", "NOT_WEFT_TIMEOUT=x"});
  for (const auto& spec : setting_table()) {
    EXPECT_EQ(config.text(spec.setting), spec.fallback) << spec.variable;
    EXPECT_EQ(config.source(spec.setting), "default") << spec.variable;
  }
  EXPECT_TRUE(config.warnings().empty());
  EXPECT_EQ(config.time(Setting::timeout), 60s);
  EXPECT_EQ(config.size(Setting::arena_chunk), std::size_t{16} << 20);
  EXPECT_EQ(config.size(Setting::arena_max), 0U);
  EXPECT_EQ(config.time(Setting::spin), std::nullopt);
  EXPECT_EQ(config.size(Setting::ib_max_message), std::nullopt);
  EXPECT_TRUE(config.flag(Setting::sigterm));
}

TEST(Config, HoldsWhatTheEnvironmentSaysAndThatItCameFromThere) {
  const auto config = read({"WEFT_TIMEOUT=1500ms", "WEFT_ARENA_CHUNK=4MiB", "WEFT_SIGTERM=off",
                            "WEFT_SPIN=0s", "WEFT_FABRIC=shm", "WEFT_LOG_FILE="});
  EXPECT_EQ(config.time(Setting::timeout), 1500ms);
  EXPECT_EQ(config.size(Setting::arena_chunk), std::size_t{4} << 20);
  EXPECT_FALSE(config.flag(Setting::sigterm));
  EXPECT_EQ(config.time(Setting::spin), 0s);
  EXPECT_EQ(config.text(Setting::fabric), "shm");
  EXPECT_EQ(config.source(Setting::timeout), "environment");
  EXPECT_EQ(config.source(Setting::log_file), "environment");
  EXPECT_EQ(config.source(Setting::init_timeout), "default");
}

TEST(Config, ReadsTheProcessEnvironmentUnlessGivenAnother) {
  ASSERT_EQ(::setenv("WEFT_TIMEOUT", "7s", 1), 0);
  const auto config = Config::read();
  ::unsetenv("WEFT_TIMEOUT");
  EXPECT_EQ(config.time(Setting::timeout), 7s);
}

TEST(Config, TakesTheFirstOfSeveralEntriesAsGetenvDoes) {
  EXPECT_EQ(read({"WEFT_TIMEOUT=1s", "WEFT_TIMEOUT=2s"}).time(Setting::timeout), 1s);
}

TEST(Config, ReplacesOneValueInACopy) {
  const Config config;
  const auto changed = config.with(Setting::timeout, "3s");
  EXPECT_EQ(changed.time(Setting::timeout), 3s);
  EXPECT_EQ(changed.source(Setting::timeout), "environment");
  EXPECT_EQ(config.time(Setting::timeout), 60s);
  EXPECT_THROW(static_cast<void>(config.with(Setting::timeout, "soon")), Error);
}

TEST(Config, NamesVariableValueAndWhatIsAccepted) {
  EXPECT_EQ(refusal("WEFT_TIMEOUT=20 parsecs"),
            "config: bad_config: WEFT_TIMEOUT=\"20 parsecs\": not a time; accepted: a time above "
            "0, such as 20s, 500ms, 1.5s, 2m or 1h");
  EXPECT_EQ(refusal("WEFT_REQUIRE=infiniband"),
            "config: bad_config: WEFT_REQUIRE=\"infiniband\": not one of the choices; accepted: "
            "none | rdma | gdr");
}

TEST(Config, EverySettingButTextRefusesWhatItDoesNotAccept) {
  for (const auto& spec : setting_table()) {
    if (spec.type == SettingType::text) continue;
    for (const std::string value : {"", "?", " ", "-1", "1s1", "none | flow"}) {
      const auto line = refusal(std::string(spec.variable) + '=' + value);
      EXPECT_NE(line.find(std::string(spec.variable) + "=\"" + value + '"'), std::string::npos)
          << line;
      EXPECT_NE(line.find(spec.accepts), std::string::npos) << line;
    }
  }
}

TEST(Config, RefusesZeroWhereItMeansNothing) {
  EXPECT_NE(refusal("WEFT_TIMEOUT=0s").find("too small"), std::string::npos);
  EXPECT_NE(refusal("WEFT_INIT_TIMEOUT=0.1ns").find("too small"), std::string::npos);
  EXPECT_NE(refusal("WEFT_IB_MAX_MESSAGE=0").find("too small"), std::string::npos);
  EXPECT_EQ(refusal("WEFT_ARENA_MAX=0"), "(accepted)");
}

TEST(Config, RefusesServersThatMakeSenseInNoJob) {
  for (const char* value : {"", ",", "0", "-1", "none", "1,2", "All"}) {
    const std::string entry = "WEFT_PS_SERVERS=" + std::string(value);
    EXPECT_NE(refusal(entry).find("accepted: all, host, or a number"), std::string::npos) << entry;
  }
  for (const char* value : {"all", "host", "3"})
    EXPECT_EQ(refusal("WEFT_PS_SERVERS=" + std::string(value)), "(accepted)");
}

TEST(Config, RefusesArenaChunksBelowAHugePage) {
  EXPECT_NE(refusal("WEFT_ARENA_CHUNK=2097151").find("too small"), std::string::npos);
  EXPECT_EQ(refusal("WEFT_ARENA_CHUNK=2m"), "(accepted)");
}

TEST(Config, HoldsWholeNumbersWithinTheirRange) {
  EXPECT_EQ(Config().integer(Setting::queue_depth), 1024);
  EXPECT_EQ(Config().integer(Setting::ib_gid), std::nullopt);
  const auto config = read({"WEFT_QUEUE_DEPTH=16", "WEFT_IB_GID=0", "WEFT_IB_TIMEOUT=31"});
  EXPECT_EQ(config.integer(Setting::queue_depth), 16);
  EXPECT_EQ(config.integer(Setting::ib_gid), 0);
  EXPECT_EQ(config.integer(Setting::ib_timeout), 31);
  EXPECT_EQ(
      refusal("WEFT_QPS_PER_PEER=9"),
      "config: bad_config: WEFT_QPS_PER_PEER=\"9\": too large; accepted: a number from 1 to 8");
  EXPECT_EQ(
      refusal("WEFT_QPS_PER_PEER=many"),
      "config: bad_config: WEFT_QPS_PER_PEER=\"many\": not a whole number; accepted: a number "
      "from 1 to 8");
}

TEST(Config, RefusesAWholeNumberJustOutsideItsRange) {
  for (const auto& spec : setting_table()) {
    if (spec.type != SettingType::integer) continue;
    const auto set = std::string(spec.variable) + '=';
    EXPECT_EQ(refusal(set + std::to_string(spec.least)), "(accepted)");
    if (spec.least > 0) {
      EXPECT_NE(refusal(set + std::to_string(spec.least - 1)).find("too small"), std::string::npos);
    }
    EXPECT_EQ(refusal(set + std::to_string(spec.most)), "(accepted)");
    if (spec.most < std::numeric_limits<std::int64_t>::max()) {
      EXPECT_NE(refusal(set + std::to_string(spec.most + 1)).find("too large"), std::string::npos);
    }
  }
}

TEST(Config, AcceptsAutoOnlyWhereTheTableSaysSo) {
  EXPECT_EQ(refusal("WEFT_SPIN=auto"), "(accepted)");
  EXPECT_EQ(refusal("WEFT_IB_MAX_MESSAGE=auto"), "(accepted)");
  EXPECT_NE(refusal("WEFT_TIMEOUT=auto"), "(accepted)");
  EXPECT_NE(refusal("WEFT_ARENA_CHUNK=auto"), "(accepted)");
}

TEST(Config, WarnsOfAnUnknownNameWithTheNearest) {
  const auto config = read({"WEFT_TIMOUT=2s", "WEFT_SIG_TERM=0", "WEFT_LOGFILE=x"});
  ASSERT_EQ(config.warnings().size(), 3U);
  EXPECT_EQ(config.warnings()[0],
            "WEFT_TIMOUT is not a variable of weft and has no effect; the nearest is WEFT_TIMEOUT");
  EXPECT_NE(config.warnings()[1].find("nearest is WEFT_SIGTERM"), std::string::npos);
  EXPECT_NE(config.warnings()[2].find("nearest is WEFT_LOG_FILE"), std::string::npos);
  EXPECT_EQ(config.time(Setting::timeout), 60s);
}

TEST(Config, AcceptsFormerNamesWithAWarningThatNamesTheNewOne) {
  for (const FormerName& name : former_names()) {
    if (!name.setting) continue;
    const std::string former(name.variable);
    const SettingSpec& spec = setting_table()[static_cast<std::size_t>(*name.setting)];
    EXPECT_TRUE(std::ranges::none_of(setting_table(), [&](const SettingSpec& other) {
      return other.variable == name.variable;
    })) << former;
    const auto config = read({former + "=" + std::string(spec.fallback)});
    ASSERT_EQ(config.warnings().size(), 1U) << former;
    EXPECT_NE(config.warnings()[0].find("is now called " + std::string(spec.variable)),
              std::string::npos)
        << config.warnings()[0];
  }
}

TEST(Config, AcceptsNamesOfRemovedSettingsWithAWarningThatTellsWhatReplacesThem) {
  int removed = 0;
  for (const FormerName& name : former_names()) {
    if (name.setting) continue;
    ++removed;
    EXPECT_FALSE(name.instead.empty()) << name.variable;
    const auto config = read({std::string(name.variable) + "=any value"});
    ASSERT_EQ(config.warnings().size(), 1U) << name.variable;
    EXPECT_EQ(config.warnings()[0],
              std::string(name.variable) +
                  " was removed and has no effect: " + std::string(name.instead) +
                  "; the old name is accepted until weft " + std::string(name.until));
    for (const auto& spec : setting_table()) EXPECT_NE(spec.variable, name.variable);
  }
  EXPECT_GT(removed, 0);
}

TEST(Config, PrefersTheNewNameInEitherOrder) {
  for (const auto& environment :
       {std::vector<std::string>{"WEFT_LADDER=tail", "WEFT_NOTIFY=imm"},
        std::vector<std::string>{"WEFT_NOTIFY=imm", "WEFT_LADDER=tail"}}) {
    const auto config = read(environment);
    EXPECT_EQ(config.text(Setting::notify), "imm");
    ASSERT_EQ(config.warnings().size(), 1U);
    EXPECT_NE(config.warnings()[0].find("WEFT_LADDER has no effect"), std::string::npos);
  }
}

TEST(Config, RefusesABadValueUnderTheFormerName) {
  EXPECT_NE(refusal("WEFT_LADDER=bad").find("WEFT_LADDER"), std::string::npos);
}

/// The line of base/config.hpp that describes the variable.
std::string described(std::string_view variable) {
  std::ifstream header(WEFT_SOURCE_DIR "/base/config.hpp");
  const std::string mark = "///< " + std::string(variable) + " ";
  for (std::string line; std::getline(header, line);)
    if (const auto at = line.find(mark); at != line.npos) return line.substr(at + mark.size());
  return {};
}

TEST(Config, IsDescribedInTheHeaderAsTheTableHasIt) {
  constexpr std::array kTypes{"time", "size", "integer", "bool", "choice", "text", "log"};
  for (const auto& spec : setting_table()) {
    const std::string line = described(spec.variable);
    SCOPED_TRACE(std::string(spec.variable) + ": " + line);
    std::istringstream words(line);
    std::string type;
    std::string fallback;
    words >> type >> fallback;
    const auto bar = type.find('|');
    EXPECT_EQ(type.substr(0, bar), kTypes.at(static_cast<std::size_t>(spec.type)));
    if (bar != type.npos)
      EXPECT_EQ(type.substr(bar + 1), spec.fallback);
    else
      EXPECT_EQ(fallback, spec.fallback.empty() ? "\"\"" : spec.fallback);
    if (spec.type != SettingType::choice || line.find(" | ") == line.npos ||
        line.find("..") != line.npos)
      continue;
    std::istringstream choices{std::string(spec.accepts)};
    for (std::string choice; choices >> choice;)
      EXPECT_NE(line.find(choice), line.npos) << "does not tell of " << choice;
  }
}

/// The rows of docs/operating.md between two headings that begin with a variable: its name, default
/// and accepted values, without backticks.
std::vector<std::string> documented(const std::string& from, const std::string& to) {
  std::ifstream document(WEFT_SOURCE_DIR "/docs/operating.md");
  std::vector<std::string> rows;
  bool is_inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line == from) is_inside = true;
    if (line == to) is_inside = false;
    if (!is_inside || !line.starts_with("| `WEFT_")) continue;
    std::size_t end = 0;
    for (int cell = 0; cell < 3 && end != line.npos; ++cell) end = line.find(" | ", end + 1);
    line = line.substr(0, end);
    std::erase(line, '`');
    rows.push_back(line);
  }
  return rows;
}

/// The rows that docs/operating.md must have: "| WEFT_FABRIC | auto | auto, shm, verbs, tcp".
std::vector<std::string> rows_of_table(bool expert) {
  std::vector<std::string> rows;
  for (const auto& spec : setting_table()) {
    if (spec.expert != expert) continue;
    std::string accepts(spec.accepts);
    for (auto bar = accepts.find(" | "); bar != accepts.npos; bar = accepts.find(" | "))
      accepts.replace(bar, 3, ", ");
    rows.push_back("| " + std::string(spec.variable) + " | " +
                   (spec.fallback.empty() ? "empty" : std::string(spec.fallback)) + " | " +
                   accepts);
  }
  return rows;
}

TEST(Config, IsDescribedInTheDocsAsTheTableHasIt) {
  EXPECT_EQ(documented("## Settings", "### Expert settings"), rows_of_table(false));
  EXPECT_EQ(documented("### Expert settings", "### Removed settings"), rows_of_table(true));
  std::vector<std::string> removed;
  for (const FormerName& name : former_names())
    if (!name.setting) removed.push_back("| " + std::string(name.variable));
  auto documented_as_removed = documented("### Removed settings", "## Tools");
  for (std::string& row : documented_as_removed) row = row.substr(0, row.find(" | "));
  EXPECT_EQ(documented_as_removed, removed);
}

TEST(Config, ListsEveryLevelAndSubsystemThatTheLogAccepts) {
  const auto accepts = setting_table()[static_cast<std::size_t>(Setting::log)].accepts;
  for (int i = 0; i < static_cast<int>(Subsystem::count_); ++i)
    EXPECT_NE(accepts.find(name(static_cast<Subsystem>(i))), accepts.npos) << i;
  for (int i = 0; i <= static_cast<int>(LogLevel::off); ++i)
    EXPECT_NE(accepts.find(name(static_cast<LogLevel>(i))), accepts.npos) << i;
}

TEST(ParseTime, ReadsEveryUnitAndFractions) {
  EXPECT_EQ(parse_time("100ns"), 100ns);
  EXPECT_EQ(parse_time("3us"), 3us);
  EXPECT_EQ(parse_time("500ms"), 500ms);
  EXPECT_EQ(parse_time("20s"), 20s);
  EXPECT_EQ(parse_time("2m"), 2min);
  EXPECT_EQ(parse_time("1h"), 1h);
  EXPECT_EQ(parse_time("1.5s"), 1500ms);
  EXPECT_EQ(parse_time("0.25h"), 15min);
  EXPECT_EQ(parse_time("1.000000001s"), 1s + 1ns);
  EXPECT_EQ(parse_time("0.0000000019s"), 1ns);
}

TEST(ParseTime, RefusesEverythingElse) {
  for (const auto* const text : {"",
                                 "20",
                                 "s",
                                 "-1s",
                                 "+1s",
                                 " 1s",
                                 "1s ",
                                 "1 s",
                                 "1S",
                                 "1.s",
                                 ".5s",
                                 "1.5.5s",
                                 "1e3s",
                                 "1,5s",
                                 "0x10s",
                                 "inf",
                                 "nan",
                                 "1d",
                                 "9223372036854775808ns",
                                 "99999999999h",
                                 "5000000000s"})
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
}

TEST(ParseSize, ReadsEveryUnitInEverySpelling) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("4096b"), 4096U);
  EXPECT_EQ(parse_size("2g"), std::size_t{2} << 30);
  EXPECT_EQ(parse_size("1t"), std::size_t{1} << 40);
  for (const auto* const text : {"4m", "4M", "4mb", "4MB", "4mib", "4MiB"})
    EXPECT_EQ(parse_size(text), std::size_t{4} << 20) << text;
  EXPECT_EQ(parse_size("9223372036854775807"), std::size_t{9223372036854775807U});
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const auto* const text :
       {"", "k", "b", "-4k", "+4k", "4 k", " 4k", "4k ", "1.5m", "4p", "4kk", "4bb", "4ib", "4bib",
        "4i", "9223372036854775808", "18446744073709551616", "8388608t", "99999999999999999999"})
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

TEST(ParseInteger, ReadsDigitsAndNothingElse) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("0042"), 42);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9223372036854775807);
  for (const auto* const text :
       {"", "-1", "+1", " 1", "1 ", "1.0", "1k", "0x1", "1e3", "9223372036854775808"})
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
}

TEST(Parse, GivesBackWhatWasWrittenOfAnyNumber) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::array<std::pair<const char*, std::int64_t>, 4> kTimes{
      {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}}};
  constexpr std::array<std::pair<const char*, std::int64_t>, 4> kSizes{
      {{"", 1}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}}};
  for (int i = 0; i < 10000; ++i) {
    const auto number = static_cast<std::int64_t>(random() >> (32 + random() % 32));
    const auto [time_unit, ns] = kTimes[random() % kTimes.size()];
    const auto [size_unit, bytes] = kSizes[random() % kSizes.size()];
    EXPECT_EQ(parse_time(std::to_string(number) + time_unit),
              std::chrono::nanoseconds(number * ns));
    EXPECT_EQ(parse_size(std::to_string(number) + size_unit),
              static_cast<std::size_t>(number) * static_cast<std::size_t>(bytes));
  }
}

}  // namespace
}  // namespace weft
