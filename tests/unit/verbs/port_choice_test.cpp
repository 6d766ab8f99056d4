#include "p2p/transport/verbs/device/port_choice.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/errors.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::uint8_t kSdr = 1;
constexpr std::uint8_t kEdr = 32;
constexpr std::uint8_t kHdr = 64;
constexpr std::uint8_t kNdr = 128;
constexpr std::uint8_t kOneLane = 1;
constexpr std::uint8_t kFourLanes = 2;

ibv_gid_entry gid(std::uint32_t index, std::uint32_t type, std::uint8_t first) {
  ibv_gid_entry entry{};
  entry.gid_index = index;
  entry.gid_type = type;
  entry.gid.raw[0] = first;
  entry.gid.raw[1] = 0x80;
  entry.gid.raw[15] = 1;
  return entry;
}

Port infiniband(const char* device, std::uint8_t number, std::uint8_t speed,
                ibv_port_state state = IBV_PORT_ACTIVE) {
  Port port;
  port.device = device;
  port.number = number;
  port.attributes.state = state;
  port.attributes.active_mtu = IBV_MTU_4096;
  port.attributes.active_width = kFourLanes;
  port.attributes.active_speed = speed;
  port.attributes.link_layer = IBV_LINK_LAYER_INFINIBAND;
  port.gids = {gid(0, IBV_GID_TYPE_IB, 0xfe)};
  return port;
}

Port roce(const char* device, std::uint8_t speed, ibv_port_state state = IBV_PORT_ACTIVE) {
  Port port = infiniband(device, 1, speed, state);
  port.attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.gids = {gid(0, IBV_GID_TYPE_ROCE_V2, 0xfe), gid(1, IBV_GID_TYPE_ROCE_V2, 0x20)};
  return port;
}

Port without_address(Port port) {
  port.gids.resize(1);
  return port;
}

Port iwarp(const char* device) {
  Port port = roce(device, kEdr);
  port.transport = IBV_TRANSPORT_IWARP;
  port.gids = {gid(0, IBV_GID_TYPE_IB, 0x02)};
  return port;
}

Port closed(const char* device) {
  Port port;
  port.device = device;
  port.problem = "can't be opened: Permission denied";
  return port;
}

Port one_lane(Port port) {
  port.attributes.active_width = kOneLane;
  return port;
}

VerbsOptions with_nic(const char* nic) {
  VerbsOptions options;
  options.nic = nic;
  return options;
}

struct Machine {
  const char* what;
  std::vector<Port> ports;
  VerbsOptions options;
  std::string expected;  ///< the port, or empty
  std::vector<std::string> passed;
};

std::vector<Machine> machines() {
  VerbsOptions by_manager;
  by_manager.connection_manager = true;
  VerbsOptions fifth_gid;
  fifth_gid.gid_index = 5;
  VerbsOptions first_gid;
  first_gid.gid_index = 0;
  Port usnic = roce("usnic_0", kEdr);
  usnic.transport = IBV_TRANSPORT_USNIC_UDP;
  Port old = infiniband("mthca0", 1, kSdr);
  old.attributes.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
  return {
      {"one NIC", {infiniband("mlx5_0", 1, kEdr)}, {}, "mlx5_0:1", {}},
      {"no NIC", {}, {}, "", {}},
      {"two ports, one with a cable",
       {infiniband("mlx4_0", 1, kSdr, IBV_PORT_DOWN), infiniband("mlx4_0", 2, kEdr)},
       {},
       "mlx4_0:2",
       {"mlx4_0:1 is down"}},
      {"the faster of two",
       {infiniband("mlx5_0", 1, kEdr), infiniband("mlx5_1", 1, kNdr)},
       {},
       "mlx5_1:1",
       {"mlx5_0:1 is slower: 100 Gb/s"}},
      {"a fast lane alone is slower than four slow ones",
       {one_lane(infiniband("mlx5_0", 1, kHdr)), infiniband("mlx5_1", 1, kEdr)},
       {},
       "mlx5_1:1",
       {"mlx5_0:1 is slower: 50 Gb/s"}},
      {"eight alike, listed in no order",
       {roce("mlx5_10", kHdr), roce("mlx5_2", kHdr), roce("mlx5_9", kHdr)},
       {},
       "mlx5_2:1",
       {"mlx5_10:1 is as fast, but later by name", "mlx5_9:1 is as fast, but later by name"}},
      {"the fastest has no address",
       {without_address(roce("mlx5_0", kNdr)), roce("rxe0", kSdr)},
       {},
       "rxe0:1",
       {"mlx5_0:1 has no routable RoCE v2 GID, as its network interface has no address: its GIDs "
        "are 0 (fe80::1, RoCE v2)"}},
      {"a subnet without its manager",
       {infiniband("mlx5_0", 1, kHdr, IBV_PORT_INIT)},
       {},
       "",
       {"mlx5_0:1 is not set up by a subnet manager yet"}},
      {"a device that this user can't open",
       {closed("mlx5_0"), infiniband("mlx5_1", 1, kEdr, IBV_PORT_ARMED)},
       {},
       "",
       {"mlx5_0:1 can't be opened: Permission denied", "mlx5_1:1 is armed, but not active yet"}},
      {"iWARP, without the connection manager",
       {iwarp("cxgb4_0"), roce("rxe0", kSdr)},
       {},
       "rxe0:1",
       {"cxgb4_0:1 is iWARP, which only the connection manager connects (WEFT_CONNECT=cm)"}},
      {"iWARP, with it",
       {iwarp("cxgb4_0"), roce("rxe0", kSdr)},
       by_manager,
       "cxgb4_0:1",
       {"rxe0:1 is slower: 10 Gb/s"}},
      {"something else that has verbs",
       {usnic},
       {},
       "",
       {"usnic_0:1 speaks neither InfiniBand, RoCE nor iWARP, so has no RC queue pairs (as EFA)"}},
      {"a device from before RoCE", {old}, {}, "mthca0:1", {}},
      {"the slower one by name",
       {roce("mlx5_0", kNdr), roce("rxe0", kSdr)},
       with_nic("rxe0"),
       "rxe0:1",
       {"mlx5_0:1 is not WEFT_NIC=rxe0"}},
      {"one port by name",
       {infiniband("mlx4_0", 1, kEdr), infiniband("mlx4_0", 2, kEdr)},
       with_nic("mlx4_0:2"),
       "mlx4_0:2",
       {"mlx4_0:1 is not WEFT_NIC=mlx4_0:2"}},
      {"the best port of a named device",
       {infiniband("mlx4_0", 1, kSdr), infiniband("mlx4_0", 2, kEdr), infiniband("a", 1, kNdr)},
       with_nic("mlx4_0"),
       "mlx4_0:2",
       {"a:1 is not WEFT_NIC=mlx4_0", "mlx4_0:1 is slower: 10 Gb/s"}},
      {"the named one is down",
       {roce("mlx5_0", kNdr), roce("mlx5_1", kNdr, IBV_PORT_DOWN)},
       with_nic("mlx5_1"),
       "",
       {"mlx5_0:1 is not WEFT_NIC=mlx5_1", "mlx5_1:1 is down"}},
      {"a GID that no port has",
       {roce("rxe0", kSdr)},
       fifth_gid,
       "",
       {"rxe0:1 has no GID 5 (WEFT_IB_GID): its GIDs are 0 (fe80::1, RoCE v2), 1 (2080::1, RoCE "
        "v2)"}},
      {"a link-local GID that is asked for",
       {without_address(roce("rxe0", kSdr))},
       first_gid,
       "rxe0:1",
       {}},
  };
}

TEST(PortChoice, IsWhatEachMachineCallsFor) {
  for (const Machine& machine : machines()) {
    const PortChoice choice = choose_port(machine.ports, machine.options);
    EXPECT_EQ(choice.chosen ? machine.ports[*choice.chosen].name() : "", machine.expected)
        << machine.what;
    EXPECT_EQ(choice.passed, machine.passed) << machine.what;
    EXPECT_EQ(choice.gid.entry.has_value(), choice.chosen.has_value()) << machine.what;
  }
}

TEST(PortChoice, TellsASettingThatStandsInTheWayFromAMachineThatDoes) {
  VerbsOptions options;
  options.gid_index = 5;
  EXPECT_TRUE(choose_port(std::vector{roce("rxe0", kSdr)}, options).by_setting);
  EXPECT_FALSE(choose_port(std::vector{roce("rxe0", kSdr, IBV_PORT_DOWN)}, options).by_setting);
  EXPECT_FALSE(choose_port(std::vector{without_address(roce("rxe0", kSdr))}, {}).by_setting);
}

TEST(PortChoice, GoesByTopologyUnlessAPortIsNamed) {
  const std::vector<Port> ports{roce("mlx5_0", kNdr), roce("mlx5_1", kNdr), roce("mlx5_2", kHdr)};
  const topology::RankPlacement placement{
      .nic = "mlx5_1", .port = 1, .reason = "nearest", .others = {{"mlx5_0", "farther"}}};
  const PortChoice choice = choose_port(ports, {}, placement);
  EXPECT_EQ(ports[choice.chosen.value()].name(), "mlx5_1:1");
  EXPECT_EQ(choice.why, "nearest");
  EXPECT_EQ(choice.passed,
            (std::vector<std::string>{"mlx5_0:1: farther", "mlx5_2:1: topology does not show it"}));
  const PortChoice named = choose_port(ports, with_nic("mlx5_2"), placement);
  EXPECT_EQ(ports[named.chosen.value()].name(), "mlx5_2:1");
  EXPECT_EQ(named.why, "WEFT_NIC=mlx5_2");
}

TEST(PortChoice, TakesTheFastestWhereTopologysCantBeUsed) {
  const std::vector<Port> ports{roce("mlx5_0", kHdr), roce("mlx5_1", kNdr, IBV_PORT_DOWN),
                                roce("mlx5_2", kNdr)};
  for (const char* nic : {"mlx5_1", "mlx5_9"}) {
    const PortChoice choice = choose_port(ports, {}, {.nic = nic, .reason = "nearest"});
    EXPECT_EQ(ports[choice.chosen.value()].name(), "mlx5_2:1") << nic;
    EXPECT_EQ(choice.why, "the fastest") << nic;
  }
}

std::string refusal(const std::vector<Port>& ports, const char* nic) {
  return weft::tests::refusal_of(Code::bad_config,
                                 [&] { static_cast<void>(choose_port(ports, with_nic(nic))); });
}

TEST(PortChoice, RefusesANameThatIsNoPortAndListsThoseThatAre) {
  EXPECT_EQ(refusal({roce("mlx5_0", kNdr), infiniband("mlx4_0", 2, kEdr)}, "mlx5_7"),
            "join: bad_config: WEFT_NIC=\"mlx5_7\": no such RDMA port is here; there are mlx5_0:1, "
            "mlx4_0:2; name one of them, or unset WEFT_NIC to take the best");
  EXPECT_NE(refusal({roce("mlx5_0", kNdr)}, "mlx5_0:2").find("no such RDMA port"),
            std::string::npos);
  EXPECT_NE(refusal({}, "mlx5_0").find("there is none at all"), std::string::npos);
}

}  // namespace
}  // namespace weft::p2p::verbs
