#include "p2p/transport/verbs/device/gid_choice.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "topology/doctor/rdma_devices.hpp"

namespace weft::p2p::verbs {
namespace {

/// "10.9.0.10" as mapped IPv4, or IPv6.
ibv_gid_entry entry(std::uint32_t index, std::uint32_t type, const std::string& address) {
  ibv_gid_entry made{};
  made.gid_index = index;
  made.gid_type = type;
  const std::string text = address.find(':') == std::string::npos ? "::ffff:" + address : address;
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), made.gid.raw), 1) << address;
  return made;
}

constexpr auto kV1 = IBV_GID_TYPE_ROCE_V1;
constexpr auto kV2 = IBV_GID_TYPE_ROCE_V2;

struct Table {
  const char* what;
  std::vector<ibv_gid_entry> entries;
  int expected;  ///< -1: none
};

TEST(GidChoice, TakesARoutableRoceV2GidOfAnIPv4AddressBeforeAnyOther) {
  const std::vector<Table> tables{
      {"Soft-RoCE with an IPv4 address",
       {entry(0, kV2, "fe80::5054:ff:fe12:3456"), entry(1, kV2, "10.9.0.10")},
       1},
      {"a NIC that has each address by v1 and v2",
       {entry(0, kV1, "fe80::1"), entry(1, kV2, "fe80::1"), entry(2, kV1, "192.168.1.5"),
        entry(3, kV2, "192.168.1.5")},
       3},
      {"IPv6 stands before IPv4",
       {entry(0, kV2, "fe80::1"), entry(1, kV2, "2001:db8::5"), entry(2, kV2, "10.0.0.1")},
       2},
      {"several IPv4 addresses",
       {entry(2, kV2, "10.0.0.1"), entry(4, kV2, "10.0.1.1"), entry(1, kV1, "10.0.0.1")},
       2},
      {"the table is not in order",
       {entry(7, kV2, "10.0.0.1"), entry(5, kV2, "10.0.1.1"), entry(6, kV2, "10.0.2.1")},
       5},
      {"global IPv6 alone", {entry(0, kV2, "fe80::1"), entry(3, kV2, "2001:db8::5")}, 3},
      {"a unique local IPv6 address", {entry(0, kV2, "fe80::1"), entry(1, kV2, "fd00::7")}, 1},
      {"IPv4 link-local does not count",
       {entry(0, kV2, "169.254.3.4"), entry(1, kV2, "2001:db8::5")},
       1},
      {"RoCE v1 alone", {entry(0, kV1, "fe80::1"), entry(1, kV1, "10.0.0.1")}, -1},
      {"link-local alone", {entry(0, kV2, "fe80::1"), entry(1, kV2, "febf::1")}, -1},
      {"an entry of zeros", {entry(0, kV2, "::")}, -1},
      {"nothing", {}, -1},
  };
  for (const Table& table : tables) {
    const GidChoice choice = choose_gid(table.entries, IBV_LINK_LAYER_ETHERNET, -1);
    EXPECT_FALSE(choice.why.empty()) << table.what;
    EXPECT_EQ(choice.entry ? static_cast<int>(choice.entry->gid_index) : -1, table.expected)
        << table.what << ": " << choice.why;
  }
}

TEST(GidChoice, SaysWhatTheTableHeldWhereNothingDoes) {
  const std::vector<ibv_gid_entry> table{entry(0, kV2, "fe80::1"), entry(1, kV1, "10.0.0.1")};
  EXPECT_EQ(choose_gid(table, IBV_LINK_LAYER_ETHERNET, -1).why,
            "has no routable RoCE v2 GID, as its network interface has no address: its GIDs are 0 "
            "(fe80::1, RoCE v2), 1 (10.0.0.1, RoCE v1)");
}

TEST(GidChoice, TakesTheFirstOfAnInfiniBandPortLinkLocalOrNot) {
  const std::vector<ibv_gid_entry> table{entry(0, IBV_GID_TYPE_IB, "fe80::2:c903:0:1"),
                                         entry(1, IBV_GID_TYPE_IB, "2001:db8::1")};
  const GidChoice choice = choose_gid(table, IBV_LINK_LAYER_INFINIBAND, -1);
  ASSERT_TRUE(choice.entry);
  EXPECT_EQ(choice.entry->gid_index, 0U);
  EXPECT_FALSE(choose_gid({}, IBV_LINK_LAYER_INFINIBAND, -1).entry);
}

TEST(GidChoice, TakesTheOneThatIsWantedIfItIsThere) {
  const std::vector<ibv_gid_entry> table{entry(0, kV1, "fe80::1"), entry(3, kV2, "10.0.0.1"),
                                         entry(4, kV2, "::")};
  const GidChoice first = choose_gid(table, IBV_LINK_LAYER_ETHERNET, 0);
  ASSERT_TRUE(first.entry);
  EXPECT_EQ(first.entry->gid_index, 0U);
  EXPECT_EQ(first.why, "WEFT_IB_GID=0");
  EXPECT_EQ(choose_gid(table, IBV_LINK_LAYER_ETHERNET, 7).why,
            "has no GID 7 (WEFT_IB_GID): its GIDs are 0 (fe80::1, RoCE v1), 3 (10.0.0.1, RoCE v2)");
  EXPECT_FALSE(choose_gid(table, IBV_LINK_LAYER_ETHERNET, 4).entry) << "an entry of zeros";
}

/// The port as /sys would show it.
doctor::RdmaPort port_with(std::vector<ibv_gid_entry> table) {
  doctor::RdmaPort port{"mlx5_0"};
  port.link_layer = "Ethernet";
  std::sort(table.begin(), table.end(), [](const ibv_gid_entry& a, const ibv_gid_entry& b) {
    return a.gid_index < b.gid_index;
  });
  for (const ibv_gid_entry& one : table) {
    doctor::Gid gid{.index = static_cast<int>(one.gid_index)};
    std::copy(std::begin(one.gid.raw), std::end(one.gid.raw), gid.bytes.begin());
    gid.type = one.gid_type == kV2 ? "RoCE v2" : "IB/RoCE v1";
    port.gids.push_back(gid);
  }
  return port;
}

TEST(GidChoice, IsWhatTheDoctorOfWeftTopoSays) {
  const std::vector<const char*> addresses{"fe80::1",  "10.0.0.1",    "169.254.3.4", "2001:db8::5",
                                           "10.0.1.1", "febf::1:2:3", "fd00::7"};
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<ibv_gid_entry> table;
    for (std::uint32_t index = 0; index < random() % 6; ++index)
      table.push_back(
          entry(index, random() % 2 == 0 ? kV1 : kV2, addresses[random() % addresses.size()]));
    std::shuffle(table.begin(), table.end(), random);
    const int wanted = random() % 4 == 0 ? static_cast<int>(random() % 6) : -1;
    const auto chosen = choose_gid(table, IBV_LINK_LAYER_ETHERNET, wanted);
    const auto told = doctor::choose_gid(port_with(table),
                                         wanted < 0 ? std::nullopt : std::optional<int>(wanted));
    EXPECT_EQ(told.chosen ? told.chosen->index : -1,
              chosen.entry ? static_cast<int>(chosen.entry->gid_index) : -1)
        << "seed " << seed << ", round " << round;
  }
}

TEST(GidText, WritesIPv4AsPeopleDo) {
  EXPECT_EQ(gid_text(bytes_of(entry(0, kV2, "10.9.0.10").gid)), "10.9.0.10");
  EXPECT_EQ(gid_text(bytes_of(entry(0, kV2, "2001:db8::5").gid)), "2001:db8::5");
}

}  // namespace
}  // namespace weft::p2p::verbs
