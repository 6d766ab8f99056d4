// Which networks two hosts share: both must see the same ones, each once.
#include "p2p/transport/address/shared_networks.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/unit/connector/ip_of.hpp"

namespace weft::p2p {
namespace {

struct Of {
  const char* name;
  const char* ip;
  int bits = 24;
  std::uint32_t mbits = 0;
  const char* port = nullptr;  ///< else the name
};

/// The addresses that a host publishes.
struct Host {
  explicit Host(std::initializer_list<Of> addresses, bool tells_speed = true) {
    std::vector<InterfaceAddress> own;
    std::vector<IpAddress> ips;
    for (const Of& of : addresses) {
      ips.push_back(ip(of.ip));
      own.push_back({.name = of.name,
                     .ip = ips.back(),
                     .prefix_bits = of.bits + (is_ipv4(ips.back()) ? 96 : 0),
                     .loopback = false,
                     .port = of.port != nullptr ? of.port : of.name,
                     .mbits = of.mbits});
      connector.ips[connector.count++] = ips.back();
    }
    networks = describe(ips, own, tells_speed);
  }
  ConnectorAddress connector;
  NetworkAddresses networks{};
};

/// The lower one's addresses, those of a network joined by +.
std::vector<std::string> shared(const Host& lower, const Host& higher) {
  std::vector<std::string> all;
  for (const auto& network :
       shared_networks({lower.connector, lower.networks}, {higher.connector, higher.networks})) {
    std::string one;
    for (const IpAddress& at : network) one += (one.empty() ? "" : "+") + text(at);
    all.push_back(one);
  }
  return all;
}
using Texts = std::vector<std::string>;

TEST(SharedNetworks, AreThoseThatBothAreOnInTheOrderOfTheLower) {
  const Host two({{"eth0", "10.1.0.1"}, {"eth1", "10.2.0.1"}});
  EXPECT_EQ(shared(two, Host({{"eth0", "10.1.0.2"}, {"eth1", "10.2.0.2"}})),
            (Texts{"10.1.0.1", "10.2.0.1"}));
  EXPECT_EQ(shared(two, Host({{"a", "10.2.0.2"}, {"b", "10.1.0.2"}})),
            (Texts{"10.1.0.1", "10.2.0.1"}));
  EXPECT_EQ(shared(two, Host({{"eth0", "10.2.0.2"}, {"eth1", "10.3.0.2"}})), Texts{"10.2.0.1"});
  EXPECT_EQ(shared(two, Host({{"eth0", "10.4.0.2"}})), Texts{}) << "a router lies between them";
}

TEST(SharedNetworks, OfOnePortAreOneThoughItHasSeveralAddresses) {
  const Host one({{"eth0", "10.1.0.1"},
                  {"eth1", "10.2.0.1"},
                  {"eth0", "fd01::1", 64},
                  {"eth1", "fd02::1", 64}});
  const Host other({{"eth0", "10.1.0.2"},
                    {"eth1", "10.2.0.2"},
                    {"eth0", "fd01::2", 64},
                    {"eth1", "fd02::2", 64}});
  EXPECT_EQ(shared(one, other), (Texts{"10.1.0.1+fd01::1", "10.2.0.1+fd02::1"}));
  // Two VLANs on one cable, at either end.
  const Host vlans({{"eth0.1", "10.1.0.1", 24, 0, "eth0"}, {"eth0.2", "10.2.0.1", 24, 0, "eth0"}});
  const Host apart({{"eth0", "10.1.0.2"}, {"eth1", "10.2.0.2"}});
  EXPECT_EQ(shared(vlans, apart), Texts{"10.1.0.1"});
  EXPECT_EQ(shared(apart, vlans), Texts{"10.1.0.2"});
}

TEST(SharedNetworks, OfOneSubnetAreOneThoughAHostHasTwoPortsThere) {
  const Host twice({{"eth0", "10.1.0.1"}, {"eth1", "10.1.0.3"}});
  EXPECT_EQ(shared(twice, Host({{"eth0", "10.1.0.2"}, {"eth1", "10.1.0.4"}})), Texts{"10.1.0.1"});
  // Only one end sees that it is one subnet.
  EXPECT_EQ(shared(twice, Host({{"eth0", "10.1.0.2", 31}, {"eth1", "10.1.0.4", 24}})),
            Texts{"10.1.0.1"});
}

TEST(SharedNetworks, AreNoneForTwoRanksOfOneHost) {
  const Host host({{"eth0", "10.1.0.1"}, {"eth1", "10.2.0.1"}});
  EXPECT_EQ(shared(host, host), Texts{});
  const Host alone({{"lo", "127.0.0.1", 8}, {"lo", "::1", 128}});
  EXPECT_EQ(shared(alone, alone), Texts{});
}

/// A bridge for containers has the same address on each host.
TEST(SharedNetworks, AreNotThoseOnWhichBothHaveTheSameAddress) {
  const Host one({{"docker0", "172.17.0.1", 16},
                  {"eth0", "10.1.0.1"},
                  {"eth1", "10.2.0.1"},
                  {"eth2", "fd03::1", 64}});
  const Host other({{"eth0", "10.1.0.2"},
                    {"eth1", "10.2.0.2"},
                    {"docker0", "172.17.0.1", 16},
                    {"eth2", "fd03::1", 64}});
  EXPECT_EQ(shared(one, other), (Texts{"10.1.0.1", "10.2.0.1"}));
  EXPECT_EQ(shared(other, one), (Texts{"10.1.0.2", "10.2.0.2"}));
  EXPECT_EQ(addresses_of_both(one.connector, other.connector),
            (std::vector{ip("172.17.0.1"), ip("fd03::1")}));
  EXPECT_EQ(addresses_of_both(one.connector, Host({{"eth0", "10.1.0.2"}}).connector),
            std::vector<IpAddress>{});
  // Another address in its subnet does not lead there either.
  EXPECT_EQ(shared(one, Host({{"docker0", "172.17.0.1", 16}, {"eth9", "172.17.0.9", 16}})),
            Texts{});
  EXPECT_EQ(addresses_of_both(one.connector, one.connector), std::vector<IpAddress>{})
      << "that is one host";
}

TEST(SharedNetworks, WithoutASlowOneBesideAFastOneAreTheFastestFirst) {
  const Host other({{"eth0", "10.1.0.2", 24, 1000},
                    {"eth1", "10.2.0.2", 24, 25'000},
                    {"eth2", "10.3.0.2", 24, 100'000}});
  EXPECT_EQ(shared(Host({{"eth0", "10.1.0.1", 24, 1000},
                         {"eth1", "10.2.0.1", 24, 25'000},
                         {"eth2", "10.3.0.1", 24, 100'000}}),
                   other),
            (Texts{"10.3.0.1", "10.2.0.1"}))
      << "a quarter is enough";
  // Either end tells, and the slower one counts.
  const Host silent({{"eth0", "10.1.0.1"}, {"eth1", "10.2.0.1"}, {"eth2", "10.3.0.1", 24, 99}});
  EXPECT_EQ(shared(silent, other), Texts{"10.2.0.1"});
  EXPECT_EQ(shared(other, silent), Texts{"10.2.0.2"});
  // A speed that nobody tells is no reason, and neither is one of networks that were named.
  const Host quiet({{"eth0", "10.1.0.1", 24, 1000}, {"eth1", "10.2.0.1"}}, false);
  const Host named({{"eth0", "10.1.0.2", 24, 1000}, {"eth1", "10.2.0.2", 24, 100'000}}, false);
  EXPECT_EQ(shared(quiet, named), (Texts{"10.1.0.1", "10.2.0.1"}));
}

TEST(SharedNetworks, AreSpokenOfAlikeByBothEnds) {
  const Host one({{"eth0", "10.1.0.1", 24, 1000}, {"eth1", "10.2.0.1", 24, 2000}});
  const Host other({{"x", "10.2.0.2"}, {"y", "10.1.0.2", 24, 1000}});
  EXPECT_EQ(shared(one, other).size(), shared(other, one).size());
  EXPECT_EQ(shared(one, other), (Texts{"10.2.0.1", "10.1.0.1"}));
}

}  // namespace
}  // namespace weft::p2p
