// Which ports a rank takes besides its nearest, and which of two ranks' ports are connected.
#include "p2p/transport/verbs/device/rail_choice.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "p2p/transport/verbs/device/verbs_address.hpp"
#include "tests/support/errors.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr std::uint8_t k100Gbit = 32;
constexpr std::uint8_t k200Gbit = 64;

Port roce_port(const char* device, std::uint8_t speed = k100Gbit) {
  Port port;
  port.device = device;
  port.attributes.state = IBV_PORT_ACTIVE;
  port.attributes.active_mtu = IBV_MTU_4096;
  port.attributes.active_width = 2;
  port.attributes.active_speed = speed;
  port.attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  ibv_gid_entry gid{};
  gid.gid_type = IBV_GID_TYPE_ROCE_V2;
  gid.gid.raw[0] = 0x20;
  port.gids = {gid};
  return port;
}

Port of_infiniband(const char* device) {
  Port port = roce_port(device);
  port.attributes.link_layer = IBV_LINK_LAYER_INFINIBAND;
  port.gids.front().gid_type = IBV_GID_TYPE_IB;
  return port;
}

Port with_link_down(Port port) {
  port.attributes.state = IBV_PORT_DOWN;
  return port;
}

Port addressless(Port port) {
  port.gids.clear();
  return port;
}

VerbsOptions options_of(const char* nic, int rails) {
  VerbsOptions options;
  options.nic = nic;
  options.rails = rails;
  return options;
}

std::vector<std::string> names(const std::vector<Port>& ports, const RailChoice& choice) {
  std::vector<std::string> names;
  if (choice.nearest.chosen) names.push_back(ports[*choice.nearest.chosen].device);
  for (const RailChoice::Further& further : choice.further)
    names.push_back(ports[further.port].device);
  return names;
}

using Names = std::vector<std::string>;

TEST(RailChoice, TakesThosePortsThatTopologyFindsAsNear) {
  const std::vector<Port> ports{roce_port("a"), roce_port("b"), roce_port("c"),
                                roce_port("d"), roce_port("e"), roce_port("f")};
  const topology::RankPlacement placement{
      .nic = "c", .port = 1, .rails = {{"b", 1}, {"c", 1}, {"d", 0}}};
  EXPECT_EQ(names(ports, choose_rails(ports, {}, placement)), (Names{"c", "b", "d"}));
  EXPECT_EQ(names(ports, choose_rails(ports, options_of("", 2), placement)), (Names{"c", "b"}));
  EXPECT_EQ(names(ports, choose_rails(ports, options_of("", 8), placement)),
            (Names{"c", "b", "d"}));
  EXPECT_EQ(names(ports, choose_rails(ports, options_of("", 1), placement)), (Names{"c"}));
  const topology::RankPlacement all{
      .nic = "a", .rails = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}}};
  EXPECT_EQ(names(ports, choose_rails(ports, {}, all)), (Names{"a", "b", "c", "d"})) << "at most 4";
}

TEST(RailChoice, WithoutTopologyTakesOneUnlessMoreAreAskedFor) {
  const std::vector<Port> ports{roce_port("a"), roce_port("b", k200Gbit),
                                with_link_down(roce_port("c"))};
  EXPECT_EQ(names(ports, choose_rails(ports, {})), (Names{"b"}));
  const RailChoice two = choose_rails(ports, options_of("", 4));
  EXPECT_EQ(names(ports, two), (Names{"b", "a"}));
  EXPECT_TRUE(two.notes.empty());
}

TEST(RailChoice, IsOnePortWithTheConnectionManagerAndFewWithManyQueuePairs) {
  const std::vector<Port> ports{roce_port("a"), roce_port("b"), roce_port("c")};
  VerbsOptions options = options_of("a,b", 0);
  options.connection_manager = true;
  EXPECT_EQ(names(ports, choose_rails(ports, options)), (Names{"a"}));
  options = options_of("", 3);
  options.queue_pairs = 3;
  EXPECT_EQ(names(ports, choose_rails(ports, options)), (Names{"a", "b"})) << "8 queue pairs";
  options.queue_pairs = 8;
  EXPECT_EQ(names(ports, choose_rails(ports, options)), (Names{"a"}));
}

TEST(RailChoice, TakesNamedPortsInTheirOrder) {
  const std::vector<Port> ports{roce_port("a"), roce_port("b"), roce_port("c", k200Gbit)};
  EXPECT_EQ(names(ports, choose_rails(ports, options_of("b,c:1,a", 0))), (Names{"b", "c", "a"}));
  EXPECT_EQ(names(ports, choose_rails(ports, options_of("b,c,a", 2))), (Names{"b", "c"}));
}

TEST(RailChoice, LeavesOutPortsThatCantBeUsedWithALineEach) {
  const std::vector<Port> ports{with_link_down(roce_port("a")), roce_port("b"),
                                addressless(roce_port("c")), of_infiniband("d"), roce_port("e")};
  const RailChoice choice = choose_rails(ports, options_of("a,b,c,d,e", 0));
  EXPECT_EQ(names(ports, choice), (Names{"b", "e"}));
  ASSERT_EQ(choice.notes.size(), 3U);
  EXPECT_TRUE(tests::contains(choice.notes[0], "a:1 is down")) << choice.notes[0];
  EXPECT_TRUE(tests::contains(choice.notes[1], "c is left out")) << choice.notes[1];
  EXPECT_EQ(choice.notes[2],
            "d:1 is left out: it is of another kind than b:1 (up, InfiniBand, 100 Gb/s, MTU 4096, "
            "not up, RoCE, 100 Gb/s, MTU 4096)");
}

TEST(RailChoice, SaysOfEveryNamedPortWhyNoneCanBeUsed) {
  const std::vector<Port> ports{with_link_down(roce_port("a")), addressless(roce_port("b"))};
  const RailChoice choice = choose_rails(ports, options_of("a,b", 0));
  EXPECT_FALSE(choice.nearest.chosen.has_value());
  std::string passed;
  for (const std::string& reason : choice.nearest.passed) passed += reason + "\n";
  EXPECT_TRUE(tests::contains(passed, "a:1 is down")) << passed;
  EXPECT_TRUE(tests::contains(passed, "b:1 ")) << passed;
}

TEST(RailChoice, RefusesAPortThatIsNamedTwiceOrNotThere) {
  const std::vector<Port> ports{roce_port("a"), roce_port("b")};
  const auto refusal = [&](const char* nics) {
    return tests::refusal_of(Code::bad_config,
                             [&] { static_cast<void>(choose_rails(ports, options_of(nics, 0))); });
  };
  for (const char* twice : {"a,b,a", "a,a:1", "a:1,b,a"})
    EXPECT_TRUE(tests::contains(refusal(twice), "names a:1 twice")) << twice;
  for (const char* missing : {"a,x", "x,a", "a,", ",a", "a,,b"})
    EXPECT_TRUE(tests::contains(refusal(missing), "no such RDMA port is here")) << missing;
}

VerbsAddress ip_port(int network, int host, std::uint8_t bits = 120) {
  VerbsAddress port;
  port.present = 1;
  port.gid[10] = port.gid[11] = std::byte{0xff};
  port.gid[12] = std::byte{10};
  port.gid[14] = static_cast<std::byte>(network);
  port.gid[15] = static_cast<std::byte>(host);
  port.network_bits = bits;
  return port;
}

using Ports = std::vector<VerbsAddress>;
using Indexes = std::vector<std::pair<std::size_t, std::size_t>>;

/// As the lower rank sees it; the higher rank must see the same.
Indexes matched(const Ports& lower, const Ports& higher) {
  Indexes seen;
  for (const PortPair& pair : match_ports(lower, higher, true))
    seen.emplace_back(pair.own, pair.peer);
  Indexes other;
  for (const PortPair& pair : match_ports(higher, lower, false))
    other.emplace_back(pair.peer, pair.own);
  EXPECT_EQ(seen, other);
  return seen;
}

TEST(MatchedPorts, AreOfOneNetworkAndEachOnce) {
  const Ports low{ip_port(1, 1), ip_port(2, 1)};
  EXPECT_EQ(matched(low, {ip_port(1, 2), ip_port(2, 2)}), (Indexes{{0, 0}, {1, 1}}));
  EXPECT_EQ(matched(low, {ip_port(2, 2), ip_port(1, 2)}), (Indexes{{0, 1}, {1, 0}}))
      << "the nearest of both are of different networks";
  EXPECT_EQ(matched({ip_port(1, 1), ip_port(1, 2), ip_port(1, 3)},
                    {ip_port(1, 4), ip_port(1, 5), ip_port(1, 6)}),
            (Indexes{{0, 0}, {1, 1}, {2, 2}}))
      << "one network";
  EXPECT_EQ(matched(low, {ip_port(2, 2)}), (Indexes{{1, 0}})) << "the peer has fewer";
  EXPECT_EQ(matched(low, {ip_port(1, 2), ip_port(3, 2)}), (Indexes{{0, 0}}));
}

TEST(MatchedPorts, OfNoCommonNetworkAreTheNearestForRouters) {
  EXPECT_EQ(matched({ip_port(1, 1), ip_port(2, 1)}, {ip_port(3, 2), ip_port(4, 2)}),
            (Indexes{{0, 0}}));
  EXPECT_EQ(matched({}, {ip_port(3, 2)}), Indexes{});
}

TEST(MatchedPorts, GoByTheNarrowerNetwork) {
  EXPECT_EQ(matched({ip_port(1, 1, 125), ip_port(2, 1)}, {ip_port(1, 2), ip_port(2, 2)}),
            (Indexes{{0, 0}, {1, 1}}));
  EXPECT_EQ(matched({ip_port(1, 1, 125), ip_port(2, 1)}, {ip_port(1, 9), ip_port(2, 2)}),
            (Indexes{{1, 1}}));
  EXPECT_EQ(matched({ip_port(1, 1, 112)}, {ip_port(2, 9, 112)}), (Indexes{{0, 0}}));
}

TEST(VerbsPart, CarriesEveryPort) {
  VerbsPart part;
  EXPECT_TRUE(part.ports().empty());
  part.port = ip_port(1, 1);
  part.port.rate = 100'000;
  VerbsAddress second = ip_port(2, 1);
  second.rate = 50'000;
  second.lid = 7;
  second.mtu = 3;
  second.reads = 4;
  second.device = {"b:1"};
  part.add(second);
  const std::vector<VerbsAddress> ports = part.ports();
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0].rate, 100'000U);
  EXPECT_EQ(ports[1].gid, second.gid);
  EXPECT_EQ(ports[1].rate, 50'000U);
  EXPECT_EQ(ports[1].lid, 7);
  EXPECT_EQ(ports[1].mtu, 3);
  EXPECT_EQ(ports[1].reads, 4);
  EXPECT_STREQ(ports[1].device.data(), "b:1");
  part.further_count = 200;  // what travelled is not trusted
  EXPECT_EQ(part.ports().size(), kMostRails);
}

}  // namespace
}  // namespace weft::p2p::verbs
