// Selection on machines that were made by hand because no recording of them exists.
#include <gtest/gtest.h>

#include "tests/unit/topology/machines.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

using Lines = std::vector<std::string>;

Lines choose(const Model& model, const Policy& policy = {}) {
  return summary(model, select(model, rank_per_gpu(model), policy));
}

const Candidate& candidate_of(const Model& model, const Choice& choice, const std::string& nic) {
  for (const Candidate& candidate : choice.candidates)
    if (nic_name(model, candidate.nic) == nic) return candidate;
  throw std::out_of_range(nic);
}

TEST(Handmade, NumbersOfNicsMeanNothing) {
  const Model model = two_sockets({"mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"}).build();
  EXPECT_EQ(choose(model), (Lines{"0000:03:00.0 -> mlx5_3 PIX gdr [mlx5_3 mlx5_2]",
                                  "0000:04:00.0 -> mlx5_2 PIX gdr [mlx5_3 mlx5_2]",
                                  "0000:83:00.0 -> mlx5_1 PIX gdr [mlx5_1 mlx5_0]",
                                  "0000:84:00.0 -> mlx5_0 PIX gdr [mlx5_1 mlx5_0]"}));
}

TEST(Handmade, ASwitchBelowASwitchIsPxb) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int top = add_switch(machine, machine.host_bridge(0), "0000:01");
  machine.gpu(add_slot(machine, top, "0000:02:00.0"), "0000:03:00.0");
  const int below = machine.bridge(add_slot(machine, top, "0000:02:01.0"), "0000:04:00.0");
  machine.nic(add_slot(machine, below, "0000:05:00.0"), "0000:06:00.0", "mlx5_0");
  EXPECT_EQ(choose(machine.build()), Lines{"0000:03:00.0 -> mlx5_0 PXB gdr [mlx5_0]"});
}

TEST(Handmade, ACloserPortForManagementIsPassedOver) {
  for (const int kind : {0, 1, 2, 3}) {
    Machine machine = two_sockets({"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"});
    const int gpu_port = machine.node(3).parent == kNone ? kNone : 3;  // above the first GPU
    machine.nic(gpu_port, "0000:03:00.1", "decoy", kind == 0 ? 25 : 200);
    switch (kind) {
      case 1:
        machine.last_port().layer = LinkLayer::ethernet;
        break;
      case 2:
        machine.last_nic() = {.pci = machine.last_nic().pci, .no_rdma = true};
        break;
      case 3:
        machine.last_port().state = PortState::down;
        break;
      default:
        break;
    }
    const Model model = machine.build();
    const Selection selection = select(model, rank_per_gpu(model));
    EXPECT_EQ(nic_name(model, selection.choices.at(0).nic), "mlx5_0") << kind;
    const int decoy = find_nic(model, "0000:03:00.1");
    EXPECT_FALSE(selection.nics.at(static_cast<std::size_t>(decoy)).usable) << kind;
    const char* const reasons[] = {"less than half of the best", "beside InfiniBand",
                                   "no RDMA device", "port 1 is down"};
    EXPECT_NE(selection.nics.at(static_cast<std::size_t>(decoy)).reason.find(reasons[kind]),
              std::string::npos)
        << selection.nics.at(static_cast<std::size_t>(decoy)).reason;
  }
}

TEST(Handmade, EthernetIsTheFabricWhereInfiniBandIsTheLesserPart) {
  Machine machine = two_sockets({"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"});
  machine.last_port().layer = LinkLayer::infiniband;
  Model model = machine.build();
  for (std::size_t i = 0; i < 3; ++i) model.nics[i].ports[0].layer = LinkLayer::ethernet;
  const auto verdicts = select(model, {}).nics;
  EXPECT_TRUE(verdicts[0].usable && verdicts[1].usable && verdicts[2].usable);
  EXPECT_FALSE(verdicts[3].usable);
}

TEST(Handmade, ASpeedThatIsNotKnownIsNeverPreferred) {
  for (const double bogus : {0.0, -3.0}) {
    Machine machine;
    machine.numa(0, 0, {0});
    const int top = add_switch(machine, machine.host_bridge(0), "0000:01");
    machine.gpu(add_slot(machine, top, "0000:02:00.0"), "0000:03:00.0");
    machine.nic(add_slot(machine, top, "0000:02:01.0"), "0000:04:00.0", "unknown", 0, bogus);
    machine.nic(add_slot(machine, top, "0000:02:02.0"), "0000:05:00.0", "known", 0, 15.75);
    EXPECT_EQ(choose(machine.build()), Lines{"0000:03:00.0 -> known PIX gdr [unknown known]"});
    // A second GPU shows that the NIC is not left idle either.
    machine.gpu(add_slot(machine, top, "0000:02:03.0"), "0000:06:00.0");
    EXPECT_EQ(choose(machine.build()), (Lines{"0000:03:00.0 -> known PIX gdr [unknown known]",
                                              "0000:06:00.0 -> unknown PIX gdr [unknown known]"}));
  }
}

TEST(Handmade, ADeviceThatIsNotOnPciIsNotPreferred) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "rxe1", 200, 0);
  machine.nic(machine.host_bridge(0), "0000:02:00.0", "rxe0");
  machine.last_nic().pci = kNone;
  const Model model = machine.build();
  EXPECT_EQ(summary(model, select(model, spread_ranks(model, 2))),
            (Lines{"rank 0 -> rxe1 NODE [rxe1 rxe0]", "rank 1 -> rxe0 NODE [rxe1 rxe0]"}));
}

TEST(Handmade, AFasterNicOfTheSameClassGoesFirst) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int top = add_switch(machine, machine.host_bridge(0), "0000:01");
  machine.gpu(add_slot(machine, top, "0000:02:00.0"), "0000:03:00.0");
  machine.nic(add_slot(machine, top, "0000:02:01.0"), "0000:04:00.0", "slow", 200, 15.75);
  machine.nic(add_slot(machine, top, "0000:02:02.0"), "0000:05:00.0", "fast", 200, 63);
  EXPECT_EQ(choose(machine.build()), Lines{"0000:03:00.0 -> fast PIX gdr [fast]"});
}

TEST(Handmade, DomainsKeepApartWhatHasTheSameBus) {
  Machine machine;
  machine.numa(0, 0, {0}).numa(8, 1, {1});
  for (const int numa : {8, 0}) {
    const std::string domain = numa == 0 ? "0003" : "10001";
    const int top = add_switch(machine, machine.host_bridge(numa), domain + ":01");
    machine.gpu(add_slot(machine, top, domain + ":02:00.0"), domain + ":03:00.0");
    machine.nic(add_slot(machine, top, domain + ":02:01.0"), domain + ":04:00.0",
                numa == 0 ? "b" : "a");
  }
  EXPECT_EQ(choose(machine.build()),
            (Lines{"0003:03:00.0 -> b PIX gdr [b]", "10001:03:00.0 -> a PIX gdr [a]"}));
}

TEST(Handmade, StagingAvoidsTheMemoryOfGpus) {
  Machine machine;
  machine.numa(4, 0, {0, 1}).numa(252, 0, {}, MemoryKind::gpu).numa(8, 1, {2, 3});
  machine.numa(253, 1, {2, 3}, MemoryKind::gpu);
  machine.gpu(machine.host_bridge(8), "0000:01:00.0");
  machine.nic(machine.host_bridge(8), "0000:02:00.0", "mlx5_0");
  const Model model = machine.build();
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(summary(model, selection), Lines{"0000:01:00.0 -> mlx5_0 NODE [mlx5_0]"});
  EXPECT_EQ(selection.choices[0].bounce_numa, 8);
  EXPECT_EQ(model.numa_of_cpus({2}), std::vector<int>{8});
}

TEST(Handmade, FourNicsOfAGpuAreItsRails) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int top = add_switch(machine, machine.host_bridge(0), "0000:01");
  machine.gpu(add_slot(machine, top, "0000:02:00.0"), "0000:03:00.0");
  for (int i = 0; i < 4; ++i)
    machine.nic(add_slot(machine, top, "0000:02:0" + std::to_string(i + 1) + ".0"),
                "0000:0" + std::to_string(i + 4) + ":00.0", "mlx5_" + std::to_string(i));
  EXPECT_EQ(choose(machine.build()),
            Lines{"0000:03:00.0 -> mlx5_0 PIX gdr [mlx5_0 mlx5_1 mlx5_2 mlx5_3]"});
}

TEST(Handmade, RanksOfOneGpuShareItsRails) {
  const Model model = two_sockets({"a", "b", "c", "d"}).build();
  const Selection selection = select(model, spread_ranks(model, 8));
  std::map<std::string, int> load;
  for (const Choice& choice : selection.choices) ++load[nic_name(model, choice.nic)];
  EXPECT_EQ(load, (std::map<std::string, int>{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}}));
}

TEST(Handmade, CardsAreSharedLast) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int bridge = machine.host_bridge(0);
  machine.gpu(bridge, "0000:01:00.0");
  machine.gpu(bridge, "0000:02:00.0");
  machine.nic(bridge, "0000:03:00.0", "a");
  machine.nic(bridge, "0000:03:00.1", "b");
  machine.nic(bridge, "0000:04:00.0", "c");
  machine.nic(bridge, "0000:04:00.1", "d");
  EXPECT_EQ(choose(machine.build()),
            (Lines{"0000:01:00.0 -> a PHB [a b c d]", "0000:02:00.0 -> c PHB [a b c d]"}));
}

TEST(Handmade, PortsOfOneDeviceAreTakenInTurn) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int bridge = machine.host_bridge(0);
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) machine.gpu(bridge, gpu);
  machine.nic(bridge, "0000:04:00.0", "mlx4_0");
  for (const int number : {3, 2}) {
    Port port = machine.last_nic().ports.front();
    port.number = number;
    if (number == 2) port.state = PortState::down;
    machine.last_nic().ports.push_back(port);
  }
  const Model model = machine.build();
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(selection.nics[0].ports, (std::vector<int>{1, 3}));
  EXPECT_EQ(selection.choices[0].port, 1);
  EXPECT_EQ(selection.choices[1].port, 3);
  EXPECT_EQ(selection.choices[2].port, 1);
}

TEST(Handmade, WithoutANicTheReasonSaysSo) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.gpu(machine.host_bridge(0), "0000:01:00.0");
  Model model = machine.build();
  EXPECT_EQ(select(model, rank_per_gpu(model)).choices.at(0).reason, "there is no NIC");
  EXPECT_NE(to_json(model, select(model, rank_per_gpu(model))).find("\"nic\": null"),
            std::string::npos);
  machine.nic(machine.host_bridge(0), "0000:02:00.0", "mlx5_0");
  machine.last_port().state = PortState::down;
  model = machine.build();
  const Choice choice = select(model, rank_per_gpu(model)).choices.at(0);
  EXPECT_EQ(choice.nic, kNone);
  EXPECT_NE(choice.reason.find("mlx5_0: not used: port 1 is down"), std::string::npos)
      << choice.reason;
}

TEST(Handmade, WithoutGpusRanksGoByTheirProcessors) {
  Machine machine;
  machine.numa(0, 0, {0, 1}).numa(1, 1, {2, 3});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "a");
  machine.nic(machine.host_bridge(1), "0000:81:00.0", "b");
  const Model model = machine.build();
  const Selection selection = select(
      model, {{.rank = 0, .cpus = {2}}, {.rank = 1, .cpus = {0}}, {.rank = 2, .cpus = {1, 3}}});
  EXPECT_EQ(summary(model, selection),
            (Lines{"rank 0 -> b NODE [b]", "rank 1 -> a NODE [a]", "rank 2 -> a NODE [a b]"}));
  EXPECT_EQ(selection.choices[0].numa, 1);
  EXPECT_EQ(selection.choices[1].numa, 0);
  // Without cpusets the ranks spread over both.
  EXPECT_EQ(summary(model, select(model, spread_ranks(model, 4))),
            (Lines{"rank 0 -> a NODE [a]", "rank 1 -> a NODE [a]", "rank 2 -> b NODE [b]",
                   "rank 3 -> b NODE [b]"}));
}

TEST(Handmade, AnUnknownNumaNodeIsNotNodeZero) {
  Machine machine;
  machine.numa(0, 0, {0}).numa(1, 1, {1});
  machine.gpu(machine.host_bridge(0), "0000:01:00.0");
  machine.nic(machine.host_bridge(kNone), "0000:02:00.0", "lost");
  machine.nic(machine.host_bridge(0), "0000:03:00.0", "near");
  Model model = machine.build();
  EXPECT_EQ(choose(model), Lines{"0000:01:00.0 -> near NODE [near]"});
  EXPECT_EQ(model.numa_of(model.nics.at(0)), kNone);
  const Choice choice = select(model, rank_per_gpu(model)).choices.at(0);
  EXPECT_EQ(candidate_of(model, choice, "lost").path.path_class, PathClass::SYS);
  // With that NIC alone, staging memory is on the GPU's node, and the output says so.
  model.nics.pop_back();
  const Choice lost = select(model, rank_per_gpu(model)).choices.at(0);
  EXPECT_EQ(lost.bounce_numa, 0);
  EXPECT_NE(lost.gdr_reason.find("(the GPU's)"), std::string::npos) << lost.gdr_reason;
}

TEST(Handmade, OnASingleNumaNodeEverythingIsThere) {
  Machine machine;
  machine.numa(3, 0, {0, 1});
  machine.gpu(machine.host_bridge(kNone), "0000:01:00.0");
  machine.nic(machine.host_bridge(kNone), "0000:02:00.0", "a");
  const Model model = machine.build();
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(summary(model, selection), Lines{"0000:01:00.0 -> a NODE [a]"});
  EXPECT_EQ(selection.choices[0].bounce_numa, 3);
}

TEST(Handmade, ANodeOfTheSamePackageIsNearerThanAnother) {
  Machine machine;
  machine.numa(0, 0, {0}).numa(1, 0, {1}).numa(2, 1, {2});
  machine.gpu(machine.host_bridge(0), "0000:41:00.0");
  machine.nic(machine.host_bridge(2), "0000:01:00.0", "far");
  machine.nic(machine.host_bridge(1), "0000:81:00.0", "near");
  EXPECT_EQ(choose(machine.build()), Lines{"0000:41:00.0 -> near SYS [near]"});
}

TEST(Handmade, APackageIsKnownByItsProcessors) {
  Machine machine;
  machine.numa(0, kNone, {0}).numa(1, kNone, {4}).numa(2, kNone, {});
  Model model = machine.build();
  model.packages = {{.number = 7, .cpus = {0, 1, 2, 3}}, {.number = 9, .cpus = {4, 5}}};
  finish(model);
  EXPECT_EQ(model.package_of(0), 7);
  EXPECT_EQ(model.package_of(1), 9);
  EXPECT_EQ(model.package_of(2), kNone);
}

TEST(Handmade, ACoherentLinkIsBetterThanAHostBridge) {
  Machine machine;
  machine.numa(0, 0, {0}).numa(1, 0, {}, MemoryKind::gpu);
  machine.gpu(machine.host_bridge(0), "0009:01:00.0");
  machine.last_gpu().c2c_gbytes = 450;
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "mlx5_0");
  const Model model = machine.build();
  EXPECT_EQ(choose(model), Lines{"0009:01:00.0 -> mlx5_0 P2C [mlx5_0]"});
  EXPECT_EQ(path_to_numa(model, 0, model.gpus[0]).path_class, PathClass::C2C);
  Policy policy;
  set_gdr_level(policy, "P2C");
  EXPECT_EQ(choose(model, policy), Lines{"0009:01:00.0 -> mlx5_0 P2C gdr [mlx5_0]"});
}

TEST(Handmade, AnInterfaceMayBeCalledAsAnotherRdmaDevice) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "roce0");
  machine.last_nic().nets = {"roce1"};
  machine.nic(machine.host_bridge(0), "0000:02:00.0", "roce1");
  machine.last_nic().nets = {"roce0"};
  const Model model = machine.build();
  EXPECT_EQ(nic_name(model, find_nic(model, "roce1")), "roce1");
  EXPECT_EQ(nic_name(model, find_nic(model, "roce0")), "roce0");
  EXPECT_EQ(nic_name(model, find_nic(model, "roce1:1")), "roce1");
  EXPECT_EQ(find_nic(model, "roce1:2"), kNone);
}

TEST(Handmade, EveryCandidateHasAReason) {
  const Model model = two_sockets({"a", "b", "c", "d"}).build();
  for (const Choice& choice : select(model, rank_per_gpu(model)).choices) {
    EXPECT_EQ(choice.candidates.size(), model.nics.size());
    EXPECT_FALSE(choice.reason.empty());
    for (const Candidate& candidate : choice.candidates) EXPECT_FALSE(candidate.reason.empty());
  }
}

TEST(Handmade, ATreeInACircleIsRefused) {
  Model model;
  model.pci.push_back({.kind = PciKind::bridge, .parent = 1});
  model.pci.push_back({.kind = PciKind::bridge, .parent = 0});
  EXPECT_THROW(finish(model), Error);
  model.pci[1].parent = 7;
  EXPECT_THROW(finish(model), Error);
}

}  // namespace
}  // namespace weft::topology
