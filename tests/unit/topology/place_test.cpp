// The answers that World gets from topology: a rank's own NIC and memory.
#include "topology/placement/place.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/topology/machines.hpp"
#include "topology/json/json.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

/// Two sockets of four processors, with two NICs each.
Machine two_by_two() {
  Machine machine;
  machine.numa(0, 0, {0, 1, 2, 3}).numa(8, 1, {4, 5, 6, 7});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "a");
  machine.nic(machine.host_bridge(0), "0000:02:00.0", "b");
  machine.nic(machine.host_bridge(8), "0000:81:00.0", "c");
  machine.nic(machine.host_bridge(8), "0000:82:00.0", "d");
  return machine;
}

/// The number of ranks that take each NIC if every rank decides for itself.
std::map<std::string, int> taken(const Model& model, const std::vector<std::vector<int>>& cpus) {
  std::map<std::string, int> load;
  const int count = static_cast<int>(cpus.size());
  for (int i = 0; i < count; ++i)
    ++load[place_rank(model,
                      {.index = i, .count = count, .cpus = cpus.at(static_cast<std::size_t>(i))},
                      {})
               .nic];
  return load;
}

TEST(Place, RanksThatDontTalkShareNicsEvenly) {
  const Model model = two_by_two().build();
  const std::map<std::string, int> even{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}};
  const std::vector<int> low{0, 1, 2, 3};
  const std::vector<int> high{4, 5, 6, 7};
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(taken(model, std::vector(8, all)), even) << "not bound";
  EXPECT_EQ(taken(model, {low, high, low, high, low, high, low, high}), even) << "in turn";
  // Where ranks are bound differently, a rank can't always tell how: each still gets a NIC of its
  // own socket, and no NIC idles.
  const auto crowded = taken(model, std::vector(8, low));
  EXPECT_EQ(crowded.at("a") + crowded.at("b"), 8);
  const auto blocks = taken(model, {low, low, low, low, high, high, high, high});
  EXPECT_EQ(blocks.at("a") + blocks.at("b"), 4);
  EXPECT_EQ(blocks.at("c") + blocks.at("d"), 4);
  for (const auto& [nic, times] : blocks) EXPECT_GE(times, 1) << nic;
}

TEST(Place, EveryPortThatIsAsNearIsARail) {
  const Model model = two_by_two().build();
  using Rails = std::vector<std::pair<std::string, int>>;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(place_rank(model, {.index = i, .count = 2, .cpus = {0, 1, 2, 3}}, {}).rails,
              (Rails{{"a", 1}, {"b", 1}}))
        << "rank " << i << ", whichever of them is its first";
  EXPECT_EQ(place_rank(model, {.cpus = {4}}, {}).rails, (Rails{{"c", 1}, {"d", 1}}));
}

TEST(Place, TheFirstOfSeveralNamedPortsIsTheRanks) {
  EXPECT_EQ(policy_of(Config().with(Setting::nic, "b:1,c")).nic, "b:1");
  EXPECT_EQ(policy_of(Config().with(Setting::nic, "b")).nic, "b");
  EXPECT_EQ(policy_of(Config()).nic, "");
}

TEST(Place, MemoryLiesBesideTheRankAndStagingBesideTheNic) {
  Machine machine;
  machine.numa(0, 0, {0}).numa(8, 1, {4});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "a");
  const Model model = machine.build();
  const RankPlacement placement = place_rank(model, {.cpus = {4}}, {});
  EXPECT_EQ(placement.nic, "a");
  EXPECT_EQ(placement.port, 1);
  EXPECT_EQ(placement.numa, 8);
  EXPECT_EQ(placement.staging, 0);
  const RankPlacement unbound = place_rank(model, {.cpus = {0, 4}}, {});
  EXPECT_EQ(unbound.numa, 0);
}

TEST(Place, OnOneNodeTheKernelIsLeftAlone) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "a");
  const RankPlacement placement = place_rank(machine.build(), {.cpus = {0}}, {});
  EXPECT_EQ(placement.nic, "a");
  EXPECT_EQ(placement.numa, kNone);
}

TEST(Place, OtherDevicesAreNamedWithTheReason) {
  const RankPlacement placement = place_rank(two_by_two().build(), {.cpus = {4}}, {});
  EXPECT_EQ(placement.nic, "c");
  ASSERT_EQ(placement.others.size(), 3U);
  for (const auto& [nic, reason] : placement.others) EXPECT_FALSE(reason.empty()) << nic;
}

class TopoFile : public testing::Test {
 protected:
  Config config(const std::string& text) const {
    const auto path = folder_.path() / "machine";
    std::ofstream(path) << text;
    return Config().with(Setting::topo_file, path.string());
  }
  tests::TempFolder folder_;
};

constexpr const char* kWiring = R"(<system version="1"><cpu numaid="0" affinity="f">
<pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
<pci busid="0001:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/>
</pci></cpu></system>)";

/// The same machine as a virtual machine shows it: each device at a bridge of its own.
Machine hidden_wiring() {
  Machine machine;
  machine.numa(0, 0, {0, 1, 2, 3});
  machine.gpu(machine.host_bridge(0), "0001:00:00.0");
  machine.nic(machine.host_bridge(0), "0101:00:00.0", "mlx5_7");
  machine.nic(machine.host_bridge(0), "0102:00:00.0", "mlx5_8");
  return machine;
}

TEST_F(TopoFile, SaysTheWiringWhileDevicesAreTheLiveOnes) {
  const Model live = hidden_wiring().build();
  EXPECT_EQ(path_between(live, live.gpus[0], live.nics[0]).path_class, PathClass::NODE);
  const Model model = machine_of(config(kWiring), live);
  ASSERT_EQ(model.nics.size(), 1U);
  EXPECT_EQ(model.nics[0].name, "mlx5_7");
  EXPECT_EQ(model.nics[0].ports.size(), 1U);
  EXPECT_EQ(path_between(model, model.gpus[0], model.nics[0]).path_class, PathClass::PIX);
  EXPECT_EQ(place_rank(model, {.cpus = {0}}, {}).nic, "mlx5_7");
}

TEST_F(TopoFile, WhatIsNotHereIsNotChosen) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.gpu(machine.host_bridge(0), "0001:00:00.0");
  const Model model = machine_of(config(kWiring), machine.build());
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(selection.choices.at(0).nic, kNone);
  EXPECT_NE(selection.nics.at(0).reason.find("this machine has not"), std::string::npos);
  EXPECT_EQ(model.notes.size(), 1U);
}

TEST_F(TopoFile, OfAnotherMachineIsLeftAside) {
  const Model live = two_by_two().build();
  const Model model = machine_of(config(kWiring), live);
  EXPECT_EQ(model.nics.size(), 4U);
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_NE(model.notes[0].find("another machine"), std::string::npos);
}

TEST_F(TopoFile, ThatCantBeReadIsABadSetting) {
  for (const char* text : {"", "<system>", "{}"}) {
    try {
      machine_of(config(text), {});
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_config);
      EXPECT_NE(std::string(error.what()).find("WEFT_TOPO_FILE"), std::string::npos);
    }
  }
  EXPECT_THROW(machine_of(Config().with(Setting::topo_file, "/nonexistent"), {}), Error);
}

TEST(PolicyOf, ReadsTheSettings) {
  const Policy policy = policy_of(Config()
                                      .with(Setting::nic, "a")
                                      .with(Setting::gpu_nic, "GPU0=b")
                                      .with(Setting::gdr_level, "poster"));
  EXPECT_EQ(policy.nic, "a");
  EXPECT_EQ(policy.gpu_nic.at(0).second, "b");
  EXPECT_EQ(policy.gdr_level, PathClass::PHB);
  EXPECT_TRUE(policy_of(Config().with(Setting::gdr_level, "never")).gdr_never);
  EXPECT_THROW(policy_of(Config().with(Setting::gpu_nic, "GPU0")), Error);
  EXPECT_THROW(Config().with(Setting::gdr_level, "near"), Error);
}

}  // namespace
}  // namespace weft::topology
