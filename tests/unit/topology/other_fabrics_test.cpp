// NICs that weft cannot drive, NICs that carry no data of ranks, and graphics chips that compute
// nothing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/topology/machines.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "topology/model/device_kind.hpp"
#include "topology/placement/place.hpp"

namespace weft::topology {
namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A GPU, an EFA and a management port of InfiniBand below one switch.
Machine beside_a_management_port(double management_gbytes = 3.938462) {
  Machine machine;
  machine.numa(0, 0, {0, 1, 2, 3});
  const int top = add_switch(machine, machine.host_bridge(0), "0000:01");
  machine.gpu(add_slot(machine, top, "0000:02:00.0"), "0000:03:00.0");
  machine.efa(add_slot(machine, top, "0000:02:01.0"), "0000:04:00.0", "rdmap4s0", 63.015385);
  machine.nic(add_slot(machine, top, "0000:02:02.0"), "0000:05:00.0", "ibp5s0", 0,
              management_gbytes);
  machine.last_nic().ports.push_back({.state = PortState::active, .layer = LinkLayer::infiniband});
  return machine;
}

TEST(OtherFabrics, AGraphicsChipOfABmcHypervisorOrCloudIsNoGpu) {
  struct Case {
    PciIdentity identity;
    bool gpu;
  };
  const std::vector<Case> cases{
      {{0x030000, 0x1d0f, 0x1111}, false},  // Amazon
      {{0x030000, 0x1a03, 0x2000}, false},  // ASPEED
      {{0x030000, 0x102b, 0x0536}, false},  // Matrox
      {{0x030000, 0x1013, 0x00b8}, false},  // Cirrus
      {{0x030000, 0x1234, 0x1111}, false},  // QEMU
      {{0x038000, 0x1af4, 0x1050}, false},  // virtio
      {{0x030000, 0x1b36, 0x0100}, false},  // QXL
      {{0x030000, 0x1414, 0x5353}, false},  // Hyper-V
      {{0x030000, 0x15ad, 0x0405}, false},  // VMware
      {{0x030000, 0x19e5, 0x1711}, false},  // HiSilicon
      {{0x030000, 0x1002, 0x515e}, false},  // ATI ES1000
      {{0x030000, 0x1002, 0x4752}, false},  // ATI Rage XL
      {{0x030200, 0x10de, 0x2901}, true},  {{0x030000, 0x10de, 0x2204}, true},
      {{0x038000, 0x1002, 0x74a1}, true},  {{0x120000, 0x1002, 0x740f}, true},
  };
  for (const Case& c : cases)
    for (const bool lists_gpus : {false, true})
      EXPECT_EQ(is_gpu(c.identity, true, lists_gpus), c.gpu)
          << std::hex << c.identity.vendor << ":" << c.identity.device;
}

TEST(OtherFabrics, ANicThatWeftCannotDriveIsKnownByItsIdentity) {
  EXPECT_TRUE(says(std::string(why_not_driven({0x020000, 0x1d0f, 0xefa0})), "EFA"));
  EXPECT_TRUE(says(std::string(why_not_driven({0x020000, 0x1d0f, 0xefa3})), "EFA"));
  EXPECT_TRUE(says(std::string(why_not_driven({0x020000, 0x17db, 0x0501})), "Slingshot"));
  EXPECT_TRUE(says(std::string(why_not_driven({0x020800, 0x8086, 0x24f0})), "Omni-Path"));
  EXPECT_TRUE(says(std::string(why_not_driven({0x020800, 0x434e, 0x0001})), "Omni-Path"));
  EXPECT_EQ(why_not_driven({0x020000, 0x1d0f, 0xec20}), "");  // ENA
  EXPECT_EQ(why_not_driven({0x020700, 0x15b3, 0x1021}), "");
  EXPECT_EQ(why_not_driven({0x020000, 0x8086, 0x1521}), "");
}

TEST(OtherFabrics, AnEfaIsTheGpusNicAndTheNarrowPortBesideItIsNot) {
  const Model model = beside_a_management_port().build();
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(summary(model, selection),
            std::vector<std::string>{"0000:03:00.0 -> rdmap4s0 PIX gdr [rdmap4s0]"});
  EXPECT_TRUE(says(selection.choices.at(0).reason,
                   "a job takes TCP in its place: EFA has no RC queue pairs"))
      << selection.choices.at(0).reason;
  EXPECT_TRUE(says(selection.nics.at(1).reason, "16 times narrower"))
      << selection.nics.at(1).reason;
  EXPECT_TRUE(says(to_json(model, selection), "\"driven\": false"));
}

TEST(OtherFabrics, ALinkEightTimesNarrowerIsJudgedByItsRate) {
  Machine machine;
  machine.numa(0, 0, {0});
  machine.nic(machine.host_bridge(0), "0000:01:00.0", "wide", 200, 32);
  machine.nic(machine.host_bridge(0), "0000:02:00.0", "narrow", 200, 4);
  const Model model = machine.build();
  EXPECT_TRUE(select(model, {}).nics.at(1).usable);
}

TEST(OtherFabrics, AJobTakesTcpAndSaysWhyItDoesNotTakeTheNicsForData) {
  const RankPlacement placement =
      place_rank(beside_a_management_port().build(), {.cpus = {0}}, Policy{});
  EXPECT_EQ(placement.nic, "");
  EXPECT_EQ(placement.reason, "rdmap4s0 is not driven: EFA has no RC queue pairs");
  ASSERT_FALSE(placement.notes.empty());
  EXPECT_EQ(placement.notes.back(), placement.reason);
}

TEST(OtherFabrics, AJobTakesANicThatWeftDrivesBesideOneThatItDoesNot) {
  Machine machine = beside_a_management_port(63.015385);
  const RankPlacement placement = place_rank(machine.build(), {.cpus = {0}}, Policy{});
  EXPECT_EQ(placement.nic, "ibp5s0");
}

TEST(OtherFabrics, ANicThatIsNamedIsTakenWhateverItsLink) {
  Policy policy;
  policy.nic = "ibp5s0";
  const RankPlacement placement =
      place_rank(beside_a_management_port().build(), {.cpus = {0}}, policy);
  EXPECT_EQ(placement.nic, "ibp5s0");
}

TEST(OtherFabrics, SlingshotIsShownAlthoughItHasNoRdmaDevice) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int bridge = machine.host_bridge(0);
  machine.gpu(bridge, "0000:01:00.0");
  const int nic = machine.efa(bridge, "0000:02:00.0", "");
  machine.node(nic).vendor = 0x17db;
  machine.node(nic).device = 0x0501;
  machine.last_nic().no_rdma = true;
  machine.last_nic().nets = {"hsn0"};
  const Model model = machine.build();
  const Selection selection = select(model, rank_per_gpu(model));
  ASSERT_NE(selection.choices.at(0).nic, kNone);
  EXPECT_EQ(selection.choices.at(0).path.path_class, PathClass::PHB);
  EXPECT_TRUE(says(selection.choices.at(0).reason, "Slingshot has no verbs"));
  EXPECT_TRUE(says(place_rank(model, {.cpus = {0}}, Policy{}).reason, "Slingshot has no verbs"));
}

TEST(OtherFabrics, DevicesOfOneNameAreLookedUpByKind) {
  const char* const file =
      R"(<topology version="2.0"><object type="Machine" cpuset="0x1" nodeset="0x1">
    <object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1"/>
    <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-04]">
      <object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0200 [8086:1521] [0:0] 00" pci_link_speed="1">
        <object type="OSDev" name="twin" osdev_type="2"/>
      </object>
      <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0207 [15b3:1021] [0:0] 00" pci_link_speed="1">
        <object type="OSDev" name="twin" osdev_type="2"/>
        <object type="OSDev" name="twin" osdev_type="3"/>
      </object>
    </object></object></topology>)";
  const Model model = import_text(file, "file");
  ASSERT_EQ(model.nics.size(), 2U);
  const int twin = find_nic(model, "twin");
  ASSERT_NE(twin, kNone);
  EXPECT_EQ(model.address_of(model.nics.at(static_cast<std::size_t>(twin)))->text(),
            "0000:02:00.0");
  EXPECT_EQ(model.nics.at(static_cast<std::size_t>(twin)).rdma, "twin");
}

}  // namespace
}  // namespace weft::topology
