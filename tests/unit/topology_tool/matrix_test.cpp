#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/topology/recorded.hpp"
#include "tests/unit/topology_tool/lines.hpp"
#include "tests/unit/topology_tool/pictured.hpp"
#include "topology/import/import.hpp"
#include "topology/render/labels.hpp"
#include "topology/render/text.hpp"

namespace weft::topology::render {
namespace {

TEST(Matrix, MarksTheChosenNicItsEqualsAndThoseThatCannotBeUsed) {
  const Pictured machine(two_sockets());
  const auto text = as_matrix(machine.view, {.all = true});
  const auto row = line_of(text, "GPU0  LOC");
  EXPECT_TRUE(contains(row, "PIX 4 63 G*")) << row;
  EXPECT_TRUE(contains(row, "PIX 4 63 G+")) << row;
  EXPECT_TRUE(contains(row, "PIX 4 63 x")) << row;
  EXPECT_TRUE(contains(row, " h")) << row;
  EXPECT_TRUE(contains(line_of(text, "GPU2  SYS"), "PXB 8 63 G*")) << text;
  EXPECT_TRUE(contains(line_of(text, "x "), "can't be used")) << text;
  EXPECT_TRUE(contains(text, "mgmt<&\">0 0000:17:00.0 is not used: ")) << text;
  EXPECT_FALSE(contains(text, " \n"));
}

TEST(Matrix, ShowsGpusByUsableNicsUnlessAllAreWanted) {
  const Pictured machine(two_sockets());
  const auto text = as_matrix(machine.view, {});
  EXPECT_TRUE(contains(text, "3 GPUs, 4 NICs (3 usable), 2 NUMA nodes")) << text;
  std::istringstream titles(line_of(text, "      "));
  std::vector<std::string> columns;
  for (std::string title; titles >> title;) columns.push_back(title);
  EXPECT_EQ(columns, (std::vector<std::string>{"mlx5_0", "mlx5_1", "mlx5_2"}));
  EXPECT_FALSE(contains(text, "LOC")) << text;
  EXPECT_TRUE(contains(line_of(text, "x "), "no line")) << text;
}

TEST(Matrix, ListsTheNicsThatAreNotUsedByTheirReason) {
  Model model = two_sockets();
  for (Nic& nic : model.nics)
    if (nic.rdma == "mlx5_1") nic.ports.front().state = PortState::down;
  const auto text = as_matrix(Pictured(std::move(model)).view, {});
  EXPECT_TRUE(contains(text,
                       "\nmlx5_1 0000:16:00.0, mgmt<&\">0 0000:17:00.0 are not used: "
                       "port 1 is down\n"))
      << text;
}

TEST(Matrix, FollowsTheGdrLevel) {
  Policy policy;
  policy.gdr_never = true;
  const Pictured machine(two_sockets(), policy);
  const auto text = as_matrix(machine.view, {});
  EXPECT_TRUE(contains(line_of(text, "GPU0  PIX"), "PIX 4 63 h*")) << text;
}

TEST(Matrix, ShowsTheNicThatASettingTakesAgainstTheRules) {
  Model model = two_sockets();
  for (Nic& nic : model.nics)
    if (nic.rdma == "mlx5_1") nic.ports.front().gbits = 10;
  Policy policy;
  policy.nic = "mlx5_1";
  const auto text = as_matrix(Pictured(std::move(model), policy).view, {});
  EXPECT_TRUE(contains(line_of(text, "GPU0  PIX"), "PIX 4 63 x*")) << text;
  EXPECT_FALSE(contains(text, "mlx5_1 0000:16:00.0 is not used")) << text;
}

void expect_fits(const std::string& text, std::size_t width) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), width) << line;
}

TEST(Matrix, BecomesAListWhereItIsTooWide) {
  const Pictured machine(two_sockets());
  const auto whole = as_matrix(machine.view, {.width = 43});
  EXPECT_TRUE(contains(whole, "\n      mlx5_0       mlx5_1       mlx5_2\n")) << whole;
  const auto text = as_matrix(machine.view, {.width = 42});
  EXPECT_TRUE(contains(text, "\nGPU0  PIX 4 63 G   mlx5_0* mlx5_1+\n      SYS 12 63 h  mlx5_2\n"))
      << text;
  for (const bool all : {false, true})
    expect_fits(as_matrix(machine.view, {.width = 42, .all = all}), 42);
  const auto listed = as_matrix(machine.view, {.width = 42, .all = true});
  EXPECT_TRUE(contains(listed,
                       "\nGPU0  PIX 4 63     GPU1\n      SYS 12 63    GPU2\n"
                       "      PIX 4 63 G   mlx5_0* mlx5_1+\n      SYS 12 63 h  mlx5_2\n"
                       "      PIX 4 63 x   mgmt<&\">0\n"))
      << listed;
}

TEST(Matrix, FitsAPageForMachinesThatExist) {
  auto files = recorded_machines();
  if (auto file = recorded_machine("aws-p6-b200.48xl-hwloc.xml"); !file.empty())
    files.push_back(std::move(file));
  if (files.empty())
    GTEST_SKIP() << "no captures of machines here: set WEFT_TEST_TOPOLOGIES to their folder";
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    const Pictured machine(import_file(file));
    for (const bool all : {false, true})
      expect_fits(as_matrix(machine.view, {.width = 80, .all = all}), 80);
    const auto text = as_matrix(machine.view, {.width = 80});
    const auto below = text.find("each:");
    for (const Choice& choice : machine.selection.choices)
      EXPECT_LT(text.find(machine.view.nic(choice.nic).name), below) << text;
  }
}

TEST(Rates, OfNicsAreInBytesAndInBits) {
  EXPECT_EQ(in_both_units("100 Gb/s: less than half of the best (400 Gb/s), of 24.6 GB/s"),
            "12.5 GB/s = 100 Gb/s: less than half of the best (50 GB/s = 400 Gb/s), of 24.6 GB/s "
            "= 196.8 Gb/s");
  EXPECT_EQ(in_both_units("fast Gb/s at 16 GT/s, Gb/s"), "fast Gb/s at 16 GT/s, Gb/s");
  EXPECT_EQ(in_both_units(""), "");
  EXPECT_EQ(in_both_units(" Gb/s"), " Gb/s");
  const Pictured machine(two_sockets());
  const std::string both = "25 GB/s = 200 Gb/s";
  EXPECT_TRUE(contains(line_of(as_ranking(machine.view, {}), "  1. mlx5_0"), both));
  EXPECT_TRUE(contains(as_tree(machine.view, {}), "mlx5_0 0000:15:00.0 " + both)) << both;
  EXPECT_TRUE(contains(as_tree(machine.view, {}), "[PCIe 63 GB/s"));
  const auto why = as_explanation(machine.view, "GPU0", "mlx5_0");
  EXPECT_TRUE(contains(line_of(why, "NIC "), both)) << why;
  EXPECT_TRUE(contains(line_of(why, "path"), "63 GB/s = 504 Gb/s")) << why;
  EXPECT_TRUE(contains(as_explanation(machine.view, "GPU0", "GPU1"), "hops, 63 GB/s"));
}

}  // namespace
}  // namespace weft::topology::render
