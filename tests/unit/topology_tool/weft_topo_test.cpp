#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/topology_tool/pictured.hpp"
#include "topology/json/json.hpp"

namespace weft::topology {
namespace {

/// A machine in a file, and the tool.
class WeftTopo : public testing::Test {
 protected:
  WeftTopo() {
    const render::Pictured machine(render::two_sockets());
    folder_.write("two.json", to_json(machine.model, machine.selection));
  }

  /// Runs a shell command line in which $TOPO is the tool; FILE is the machine.
  tests::ShellOutcome run(const std::string& line) {
    return tests::run_shell("cd '" + folder_.path().string() +
                            "'; TOPO='" WEFT_TOPO "'; FILE=two.json; { " + line + "; } 2>&1");
  }

  tests::TempFolder folder_;
};

TEST_F(WeftTopo, ShowsAFileInEveryForm) {
  for (const auto& [form, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "PIX 4 63 G*"},
           {"--tree", "-> mlx5_0 PIX GPUDirect"},
           {"--nics", "1. mlx5_0"},
           {"--json", "\"schema\""},
           {"--dot", "digraph"},
           {"--svg", "<svg"},
           {"--svg --theme dark", "<svg"},
           {"--nccl-xml", "<system"},
           {"--mooncake", "\"cuda:0\""},
           {"--explain GPU2 mlx5_2", "verdict    chosen"},
           {"--ranks 4", "rank 3 on GPU0"},
           {"--ranks 4 --json", "\"rank\""}}) {
    const auto outcome = run(std::string("$TOPO --input $FILE ") + form);
    EXPECT_EQ(outcome.exit_code, 0) << form << ": " << outcome.output;
    EXPECT_TRUE(outcome.has(part)) << form << ": " << outcome.output;
    EXPECT_FALSE(outcome.has("\033")) << form;
  }
}

TEST_F(WeftTopo, FitsTheColumnsOfItsOutput) {
  const char* const table = "mlx5_0       mlx5_1       mlx5_2\n";
  EXPECT_TRUE(run("unset COLUMNS; $TOPO --input $FILE").has(table));
  EXPECT_FALSE(run("unset COLUMNS; $TOPO --input $FILE --all").has("GPU0  GPU1  GPU2"));
  EXPECT_TRUE(run("COLUMNS=200 $TOPO --input $FILE --all").has("GPU1       GPU2       mlx5_0"));
  EXPECT_FALSE(run("COLUMNS=40 $TOPO --input $FILE").has(table));
  EXPECT_TRUE(run("COLUMNS=many $TOPO --input $FILE").has(table));
  EXPECT_TRUE(run("COLUMNS=40 $TOPO --input $FILE --width 0").has(table));
  if (run("script --version").exit_code != 0) GTEST_SKIP() << "no terminal here: script is missing";
  const auto at_terminal = [&](const std::string& columns) {
    return run("unset COLUMNS; export NO_COLOR=1 TOPO FILE; script -qec 'stty cols " + columns +
               "; $TOPO --input $FILE' /dev/null | tr -d '\\r'");
  };
  EXPECT_TRUE(at_terminal("43").has(table)) << at_terminal("43").output;
  EXPECT_FALSE(at_terminal("42").has(table));
  EXPECT_TRUE(at_terminal("42").has("mlx5_0* mlx5_1+")) << at_terminal("42").output;
}

/// The longest line, in bytes of ASCII.
std::size_t longest_line(const std::string& text) {
  std::istringstream in(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(in, line);)
    longest = std::max(longest, static_cast<std::size_t>(std::ranges::count_if(
                                    line, [](char c) { return (c & 0x80) == 0; })));
  return longest;
}

TEST_F(WeftTopo, BreaksTheLinesOfEveryTextAtBlanks) {
  for (const std::string form : {"--ranks 4", "--explain GPU2 mlx5_2", "--nics", "--tree"}) {
    const std::string line = "unset COLUMNS; $TOPO --input $FILE " + form;
    const auto whole = run(line + " --width 0");
    const auto broken = run(line + " --width 50 | sed 's/\\xe2../#/g'");
    EXPECT_GT(longest_line(whole.output), 50U) << form;
    EXPECT_LE(longest_line(broken.output), 50U) << broken.output;
    EXPECT_LE(longest_line(run(line).output), 80U) << form;
    const std::string words = " | tr -d '\\n ' | sed 's/[│├└─]//g'";
    EXPECT_EQ(run(line + words).output, run(line + " --width 0" + words).output) << form;
  }
}

TEST_F(WeftTopo, ReadsStandardInput) {
  const auto file = run("$TOPO --input $FILE --tree");
  const auto piped = run("$TOPO --input - --tree < $FILE");
  EXPECT_EQ(piped.exit_code, 0) << piped.output;
  EXPECT_EQ(piped.lines(), file.lines());
}

TEST_F(WeftTopo, LeavesTheFileOfAnotherMachineAsideAsAJobDoes) {
  const auto outcome = run("WEFT_TOPO_FILE=$FILE $TOPO");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.has("WEFT_TOPO_FILE=two.json describes another machine")) << outcome.output;
  EXPECT_EQ(run("WEFT_TOPO_FILE=missing.json $TOPO").exit_code, 2);
}

TEST_F(WeftTopo, DecidesAsAJobWithTheseSettingsWould) {
  EXPECT_TRUE(run("WEFT_GDR_LEVEL=PIX $TOPO --input $FILE --width 0").has("PXB is beyond PIX"));
  EXPECT_TRUE(run("WEFT_GDR_LEVEL=PIX $TOPO --input $FILE --width 0 --gdr-level PXB")
                  .has("PXB is within PXB"));
  EXPECT_TRUE(
      run("WEFT_NIC=mlx5_1 $TOPO --input $FILE").has("GPU2 0000:25:00.0 (NUMA node 1): mlx5_1"));
}

TEST_F(WeftTopo, RefusesWhatCannotBeUsedWithOneLineAndExitCode2) {
  folder_.write("cut.json", "{\"schema\": \"weft-topo/1\", \"gpus\": [");
  folder_.write("cut.xml", "<system version=\"1\">\n<cpu numaid=\"0\">\n");
  for (const auto& [arguments, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"--tre", "--tre"},
           {"--input", "--input"},
           {"--input $FILE --svg --dot", "--"},
           {"--input $FILE --ranks 0", "--ranks"},
           {"--input $FILE --ranks many", "--ranks"},
           {"--input $FILE --theme blue --svg", "blue not in {auto,light,dark}; see"},
           {"--input $FILE --gdr-level near",
            "--gdr-level: bad_argument: \"near\" is no path class"},
           {"--input $FILE --width -3", "--width"},
           {"--input missing.xml", "missing.xml"},
           {"--input .", "."},
           {"--input cut.json", "cut.json"},
           {"--input cut.xml", "line 3"},
           {"--input $FILE --explain GPU0", "--explain"},
           {"--input $FILE --explain GPU9 mlx5_0", "there are: GPU0 (0000:13:00.0), GPU1"},
           {"--input $FILE --explain GPU0 mlx5_9", "mlx5_1"},
           {"--diff $FILE", "--diff"},
           {"--diff $FILE missing.xml", "missing.xml"},
           {"docter", "docter"},
           {"doctor --jsn", "--jsn"}}) {
    const auto outcome = run(std::string("$TOPO ") + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << ": " << outcome.output;
    EXPECT_TRUE(outcome.has(part)) << arguments << ": " << outcome.output;
    EXPECT_EQ(outcome.lines(), 1) << arguments << ": " << outcome.output;
    EXPECT_TRUE(outcome.output.starts_with("weft-topo: ")) << outcome.output;
  }
  EXPECT_EQ(run("WEFT_GDR_LEVEL=near $TOPO --input $FILE").exit_code, 2);
  EXPECT_TRUE(run("WEFT_GDR_LEVLE=PIX $TOPO --input $FILE").has("WEFT_GDR_LEVEL"));
  const auto outcome = run("WEFT_NIC=mlx5_9 $TOPO --input $FILE");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.has("WEFT_NIC")) << outcome.output;
}

TEST_F(WeftTopo, EndsWithExitCode2IfItsOutputIsLost) {
  for (const char* arguments : {"--input $FILE", "--input $FILE --json", "doctor"})
    EXPECT_EQ(run(std::string("$TOPO ") + arguments + " >/dev/full").exit_code, 2) << arguments;
}

TEST_F(WeftTopo, ComparesMachinesByExitCode) {
  EXPECT_EQ(run("$TOPO --diff $FILE $FILE").exit_code, 0);
  EXPECT_EQ(
      run("sed 's/mlx5_2/mlx5_7/g' $FILE > other.json; $TOPO --diff $FILE other.json").exit_code,
      1);
}

TEST_F(WeftTopo, LooksAtThisMachineAsItIs) {
  for (const char* form : {"", "--tree", "--nics", "--svg", "--nccl-xml", "--mooncake"}) {
    const auto outcome = run(std::string("$TOPO ") + form);
    EXPECT_EQ(outcome.exit_code, 0) << form << ": " << outcome.output;
  }
  const auto json = nlohmann::json::parse(run("$TOPO --json").output, nullptr, false);
  EXPECT_EQ(json["schema"], "weft-topo/1");
  EXPECT_EQ(json["source"], "live");
}

TEST_F(WeftTopo, DoctorEndsWithTheCodeOfItsVerdict) {
  const auto outcome = run("$TOPO doctor --json --ranks 2");
  const auto json = nlohmann::json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  const auto verdict = json["verdict"].get<std::string>();
  EXPECT_EQ(outcome.exit_code, verdict == "fail" ? 3 : verdict == "warn" ? 1 : 0);
  EXPECT_EQ(run("$TOPO doctor --ranks 2").exit_code, outcome.exit_code);
}

TEST_F(WeftTopo, DoctorSaysWhetherTheCongestionControlOfThisMachinePaces) {
  std::ifstream setting("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  if (!(setting >> name)) GTEST_SKIP() << "the kernel does not tell the congestion control";
  const auto json = nlohmann::json::parse(run("$TOPO doctor --json").output, nullptr, false);
  std::vector<std::string> verdicts;
  std::set<std::string> checks;
  for (const auto& finding : json["findings"]) {
    checks.insert(finding["check"].get<std::string>());
    if (finding["check"] == "tcp-congestion") verdicts.push_back(finding["verdict"]);
  }
  EXPECT_EQ(verdicts, std::vector<std::string>{name.starts_with("bbr") ? "warn" : "ok"});
  for (const char* check : {"tcp-buffers", "tcp-mtu", "tcp-qdisc"})
    EXPECT_TRUE(checks.contains(check)) << check;
}

TEST_F(WeftTopo, NeedsNoLibraryOfRdmaOrCuda) {
  const auto outcome = run("ldd $TOPO");
  if (outcome.exit_code != 0) GTEST_SKIP() << "ldd: " << outcome.output;
  for (const char* library : {"libibverbs", "librdmacm", "libcuda", "libnvidia", "libpmix"})
    EXPECT_FALSE(outcome.has(library)) << outcome.output;
}

}  // namespace
}  // namespace weft::topology
