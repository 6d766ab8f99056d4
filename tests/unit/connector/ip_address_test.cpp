#include "p2p/transport/address/ip_address.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>

#include <cstring>

#include "weft/error.hpp"

#include "tests/unit/connector/ip_of.hpp"

namespace weft::p2p {
namespace {

/// `bits` as people count them.
InterfaceAddress on(const char* name, const char* address, int bits) {
  const IpAddress at = ip(address);
  return {.name = name,
          .ip = at,
          .prefix_bits = bits + (is_ipv4(at) ? 96 : 0),
          .loopback = std::strcmp(name, "lo") == 0};
}

const std::vector<InterfaceAddress> kHost = {
    on("lo", "127.0.0.1", 8),   on("lo", "::1", 128),         on("docker0", "172.17.0.1", 16),
    on("eth0", "10.0.0.2", 24), on("eth0", "10.0.0.3", 24),   on("eth0", "fd00::2", 64),
    on("eth0", "fe80::2", 64),  on("ib0", "192.168.7.2", 24), on("virbr0", "192.168.122.1", 24)};

const std::vector<std::string> kBare = {"eth1", "ib1"};

std::vector<std::string> chosen(const std::vector<InterfaceAddress>& host,
                                std::string_view wanted) {
  std::vector<std::string> texts;
  for (const IpAddress& p : choose_ip_addresses({host, kBare}, wanted).ips)
    texts.push_back(text(p));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(IpAddresses, AreThoseOfNetworksThatOtherHostsAreOn) {
  // First one address of each kind for each interface, then the rest.
  EXPECT_EQ(chosen(kHost, "auto"), (Texts{"10.0.0.2", "192.168.7.2", "fd00::2", "10.0.0.3"}));
}

TEST(IpAddresses, AreLoopbackOnAHostWithoutANetwork) {
  const std::vector<InterfaceAddress> alone = {kHost[0], kHost[1], kHost[2]};
  EXPECT_EQ(chosen(alone, "auto"), (Texts{"127.0.0.1", "::1"}));
}

TEST(IpAddresses, AreTheFirstFourOfMany) {
  std::vector<InterfaceAddress> many;
  for (int i = 1; i < 10; ++i)
    many.push_back(on("eth0", ("10.0.0." + std::to_string(i)).c_str(), 8));
  EXPECT_EQ(chosen(many, "auto"), (Texts{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}));
}

TEST(IpAddresses, AreWhatTheUserNames) {
  EXPECT_EQ(chosen(kHost, "ib0"), Texts{"192.168.7.2"});
  EXPECT_EQ(chosen(kHost, "docker0"), Texts{"172.17.0.1"});
  EXPECT_EQ(chosen(kHost, "10.0.0.3"), Texts{"10.0.0.3"});
  EXPECT_EQ(chosen(kHost, "192.168.0.0/16"), (Texts{"192.168.7.2", "192.168.122.1"}));
  EXPECT_EQ(chosen(kHost, "192.168.6.0/23"), Texts{"192.168.7.2"});
  EXPECT_EQ(chosen(kHost, "fd00::/8"), Texts{"fd00::2"});
  EXPECT_EQ(chosen(kHost, "lo"), (Texts{"127.0.0.1", "::1"}));
}

TEST(IpAddresses, OfAListComeInItsOrderTheFirstOfEachBeforeTheRest) {
  EXPECT_EQ(chosen(kHost, "ib0,eth0"), (Texts{"192.168.7.2", "10.0.0.2", "fd00::2", "10.0.0.3"}));
  EXPECT_EQ(chosen(kHost, "eth0,ib0"), (Texts{"10.0.0.2", "192.168.7.2", "fd00::2", "10.0.0.3"}));
  EXPECT_EQ(chosen(kHost, "fd00::/8,10.0.0.3,ib0"), (Texts{"fd00::2", "10.0.0.3", "192.168.7.2"}));
  EXPECT_EQ(chosen(kHost, "lo,eth0"), (Texts{"127.0.0.1", "10.0.0.2", "::1", "fd00::2"}));
}

TEST(IpAddresses, OfInterfacesWithoutOneAreLeftOut) {
  std::vector<InterfaceAddress> host = kHost;
  host.push_back(on("eth2", "fe80::7", 64));  // which says nothing to another host
  const ChosenIps ips = choose_ip_addresses({host, kBare}, "eth1,ib0,eth2");
  ASSERT_EQ(ips.ips.size(), 1U);
  EXPECT_EQ(text(ips.ips[0]), "192.168.7.2");
  EXPECT_EQ(ips.left_out, (Texts{"eth1", "eth2"}));
}

/// The message that refuses the setting.
std::string refusal(std::string_view wanted) {
  try {
    (void)choose_ip_addresses({kHost, kBare}, wanted);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_config);
    return error.detail().message;
  }
  ADD_FAILURE() << wanted << " was accepted";
  return {};
}

TEST(IpAddresses, AreRefusedThatTheHostDoesNotHave) {
  for (const std::string wanted :
       {"eth7", "10.0.1.0/24", "10.0.0.0/33", "10.0.0.0/x", "fe80::/10", "", "eth0,eth7", "eth0,",
        ",eth0", "eth0,,ib0", "eth0,auto", "eth0, ib0"}) {
    const std::string said = refusal(wanted);
    EXPECT_NE(said.find("WEFT_IFACE=\"" + wanted + "\" names"), std::string::npos) << said;
    EXPECT_NE(said.find("which is none of them"), std::string::npos) << said;
    EXPECT_NE(said.find("ib0 192.168.7.2"), std::string::npos) << said;
    EXPECT_NE(said.find("eth1 (down, or without an address)"), std::string::npos) << said;
  }
}

TEST(IpAddresses, AreRefusedIfNamedTwiceOrTooMany) {
  for (const char* wanted :
       {"eth0,eth0", "eth0,ib0,eth0", "eth1,eth0,eth1", "eth0,10.0.0.3", "192.168.0.0/16,ib0"}) {
    const std::string said = refusal(wanted);
    EXPECT_NE(said.find(" twice"), std::string::npos) << said;
    EXPECT_NE(said.find("ib0 192.168.7.2"), std::string::npos) << said;
  }
  EXPECT_NE(refusal("lo,docker0,eth0,ib0,virbr0").find("more than 4"), std::string::npos);
}

TEST(IpAddresses, AreRefusedIfNoneNamedHasOne) {
  EXPECT_NE(refusal("eth1").find("none with an address"), std::string::npos);
  EXPECT_NE(refusal("ib1,eth1").find("none with an address"), std::string::npos);
}

TEST(IpAddresses, OfAnInterfaceThatIsNamedMayAllBeCalledFrom) {
  const std::vector<IpAddress> named = {ip("10.0.0.2"), ip("192.168.7.2")};
  Texts beside;
  for (const IpAddress& own : addresses_beside(kHost, named)) beside.push_back(text(own));
  EXPECT_EQ(beside, (Texts{"10.0.0.2", "10.0.0.3", "fd00::2", "fe80::2", "192.168.7.2"}));
}

TEST(IpAddresses, OfASharedSubnetAreTriedFirst) {
  ConnectorAddress peer;
  for (const char* at : {"172.30.0.9", "fd00::9", "10.0.0.9", "10.0.1.9"})
    peer.ips[peer.count++] = ip(at);
  Texts order;
  for (const IpAddress& p : sort_by_reachability(peer, kHost, false)) order.push_back(text(p));
  EXPECT_EQ(order, (Texts{"fd00::9", "10.0.0.9", "172.30.0.9", "10.0.1.9"}));
}

TEST(IpAddresses, OfNetworksThatTheUserNamedAreTriedAlone) {
  ConnectorAddress peer;
  for (const char* at : {"172.30.0.9", "fd00::9", "10.0.0.9"}) peer.ips[peer.count++] = ip(at);
  const auto tried = [&](const char* network) {
    std::vector<InterfaceAddress> named;
    std::copy_if(kHost.begin(), kHost.end(), std::back_inserter(named),
                 [&](const auto& a) { return text(a.ip).rfind(network, 0) == 0; });
    Texts texts;
    for (const IpAddress& p : sort_by_reachability(peer, named, true)) texts.push_back(text(p));
    return texts;
  };
  EXPECT_EQ(tried("10.0.0."), (Texts{"10.0.0.9"}));
  // Routers may know the way to the others.
  EXPECT_EQ(tried("192.168."), (Texts{"172.30.0.9", "fd00::9", "10.0.0.9"}));
}

TEST(IpAddresses, MoreThanThereIsRoomForAreNotBelieved) {
  ConnectorAddress peer;
  peer.count = 60'000;
  EXPECT_EQ(sort_by_reachability(peer, kHost, false).size(), ConnectorAddress::kMaxIps);
}

TEST(IpAddresses, AreToldWithTheirPort) {
  ConnectorAddress address{.port = 4711, .count = 2};
  address.ips[0] = ip("10.0.0.2");
  address.ips[1] = ip("fd00::2");
  EXPECT_EQ(text(address), "10.0.0.2:4711, [fd00::2]:4711");
  EXPECT_EQ(text(ConnectorAddress{}), "nowhere");
}

TEST(IpAddresses, OfThisHostHaveSubnets) {
  for (const InterfaceAddress& a : interface_addresses()) {
    EXPECT_GT(a.prefix_bits, is_ipv4(a.ip) ? 96 : 0) << a.name;
    EXPECT_LE(a.prefix_bits, 128) << a.name;
    if (a.ip == ip("127.0.0.1")) {
      EXPECT_EQ(a.prefix_bits, 96 + 8);
    }
  }
}

}  // namespace
}  // namespace weft::p2p
