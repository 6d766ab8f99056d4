#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/config.hpp"
#include "tests/support/shell.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft {
namespace {

using Outcome = tests::ShellOutcome;

/// Runs a shell command line in which $INFO is the tool, with no WEFT_ variable but its own.
Outcome run(const std::string& line) { return tests::run_shell("INFO='" WEFT_INFO "'; " + line); }

/// True if the output of weft-info has an entry for the setting.
bool lists(const Outcome& outcome, const SettingSpec& spec) {
  const std::string entry = '\n' + std::string(spec.variable) + ' ';
  return outcome.output.find(entry) != std::string::npos;
}

TEST(WeftInfo, PrintsEverySettingWithItsValueAndSource) {
  const auto outcome = run("WEFT_TIMEOUT=7s \"$INFO\" --all");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const auto& spec : setting_table()) {
    EXPECT_TRUE(lists(outcome, spec)) << spec.variable;
    EXPECT_NE(outcome.output.find(spec.meaning), std::string::npos) << spec.variable;
    EXPECT_NE(outcome.output.find(spec.accepts), std::string::npos) << spec.variable;
  }
  EXPECT_NE(outcome.output.find("7s"), std::string::npos);
  EXPECT_NE(outcome.output.find("environment"), std::string::npos);
}

TEST(WeftInfo, HidesExpertSettingsThatHaveTheirDefaults) {
  const auto outcome = run("WEFT_CQS=2 \"$INFO\"");
  EXPECT_EQ(outcome.exit_code, 0);
  int hidden = 0;
  for (const auto& spec : setting_table()) {
    const bool is_hidden = spec.expert && spec.setting != Setting::cqs;
    EXPECT_EQ(lists(outcome, spec), !is_hidden) << spec.variable;
    hidden += is_hidden ? 1 : 0;
  }
  EXPECT_NE(outcome.output.find('\n' + std::to_string(hidden) + " expert settings have their"),
            std::string::npos);
}

TEST(WeftInfo, PrintsTheSameAsJson) {
  const auto outcome = run("WEFT_SPIN=5us WEFT_TIMOUT=1s \"$INFO\" --json");
  ASSERT_EQ(outcome.exit_code, 0);
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["settings"].size(), setting_table().size());
  for (const auto& spec : setting_table()) {
    const auto& setting = json["settings"][static_cast<std::size_t>(spec.setting)];
    const bool is_set = spec.setting == Setting::spin;
    EXPECT_EQ(setting["variable"], spec.variable);
    EXPECT_EQ(setting["value"], is_set ? "5us" : spec.fallback);
    EXPECT_EQ(setting["source"], is_set ? "environment" : "default");
    EXPECT_EQ(setting["default"], spec.fallback);
    EXPECT_EQ(setting["expert"], spec.expert);
  }
  EXPECT_TRUE(json["topology"].contains("nic") && json["topology"].contains("reason"));
  ASSERT_EQ(json["warnings"].size(), 1U);
  EXPECT_NE(json["warnings"][0].get<std::string>().find("WEFT_TIMEOUT"), std::string::npos);
  EXPECT_TRUE(json["version"].is_string());
  EXPECT_GT(json["machine"]["usable_cpus"].get<double>(), 0);
}

TEST(WeftInfo, RefusesABadValueWithOneLineAndExitCode2) {
  const auto outcome = run("WEFT_ARENA_CHUNK=1m \"$INFO\" 2>&1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.output,
            "weft-info: config: bad_config: WEFT_ARENA_CHUNK=\"1m\": too small; accepted: a size "
            "from 2m on, such as 16m\n");
}

TEST(WeftInfo, RefusesWhatJoiningWouldRefuse) {
  for (const std::string setting :
       {"WEFT_ADDR=-1", "WEFT_ADDR=0.0.0.0:1", "WEFT_RANK=2 WEFT_SIZE=2", "WEFT_TOKEN_FILE=/nope",
        "WEFT_COLL=-1", "WEFT_COLL_COSTS=/nope", "WEFT_RECORD_DIR=/nope",
        "WEFT_NUMA=", "WEFT_PS_SERVERS=,", "WEFT_IFACE=-1", "WEFT_LOG_FILE=/nope/log",
        "WEFT_LOG_FILE=%x", "WEFT_SUBSCRIBE_ADDR=-1", "WEFT_GPU=x"}) {
    const auto outcome = run(setting + " \"$INFO\" 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << setting;
    const std::string name = setting.substr(0, setting.find('='));
    EXPECT_NE(outcome.output.find(name), std::string::npos) << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

TEST(WeftInfo, TellsThatAFileIsNoFolder) {
  EXPECT_NE(run("WEFT_RECORD_DIR=/etc/passwd \"$INFO\" 2>&1")
                .output.find("WEFT_RECORD_DIR=/etc/passwd: it is no folder"),
            std::string::npos);
}

TEST(WeftInfo, AcceptsWhatJoiningAcceptsAndCreatesNothing) {
  const tests::TempFolder folder;
  const std::string log = folder.path() / "log";
  for (const std::string& setting :
       {std::string("WEFT_ADDR=10.0.0.1:29400"), std::string("WEFT_BOOTSTRAP=alone WEFT_ADDR=-1"),
        std::string("WEFT_COLL=broadcast=doubling"), "WEFT_RECORD_DIR=" + folder.path().string(),
        std::string("WEFT_NUMA=off"), std::string("WEFT_PS_SERVERS=2"),
        std::string("WEFT_SUBSCRIBE_ADDR=/nope/address"), "WEFT_LOG_FILE=" + log}) {
    const auto outcome = run(setting + " \"$INFO\" 2>&1");
    EXPECT_EQ(outcome.exit_code, 0) << setting << ": " << outcome.output;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Tools, RefuseAMistypedArgumentWithItsNameAndExitCode2) {
  for (const std::string line :
       {"info --hlep", "tune --hlep", "status --hlep", "trace --hlep", "trace merge --hlep",
        "trace --hlep merge", "chaos --hlep", "chaos --hlep -- true"}) {
    const auto outcome = run("\"$(dirname \"$INFO\")\"/weft-" + line + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << line;
    EXPECT_EQ(outcome.lines(), 1) << outcome.output;
    EXPECT_TRUE(outcome.has("not expected: --hlep; see weft-")) << line << ": " << outcome.output;
  }
  const auto typo = run("\"$(dirname \"$INFO\")/weft-trace\" mrege a 2>&1");
  EXPECT_TRUE(typo.has("not expected: mrege;")) << typo.output;
  EXPECT_EQ(run("\"$INFO\" --json --job 2>&1").exit_code, 2);
  EXPECT_EQ(run("\"$INFO\" --gpu --job 2>&1").exit_code, 2);
  for (const std::string name : {"info", "tune", "status", "trace", "chaos"}) {
    const auto outcome = run("\"$(dirname \"$INFO\")\"/weft-" + name + " --version");
    EXPECT_EQ(outcome.exit_code, 0) << name;
    EXPECT_TRUE(outcome.output.starts_with("weft ")) << outcome.output;
  }
}

TEST(WeftInfo, EndsWithExitCode2IfItsOutputIsLost) {
  EXPECT_EQ(run("\"$INFO\" >/dev/full 2>&1").exit_code, 2);
  EXPECT_EQ(run("\"$INFO\" --json >/dev/full 2>&1").exit_code, 2);
  EXPECT_EQ(run("\"$INFO\" --gpu >/dev/full 2>&1").exit_code, 2);
}

}  // namespace
}  // namespace weft
