#include "p2p/transport/address/shared_networks.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace weft::p2p {
namespace {

constexpr std::uint64_t kLeastPart = 4;  // of the fastest network's speed

struct End {
  IpAddress ip;
  NetworkAddress network;

  bool reaches(const IpAddress& other) const noexcept {
    return in_prefix(other, ip, network.prefix_bits);
  }
};

std::span<const IpAddress> ips_of(const ConnectorAddress& host) {
  return std::span(host.ips).first(std::min<std::size_t>(host.count, ConnectorAddress::kMaxIps));
}

bool has(const ConnectorAddress& host, const IpAddress& ip) {
  return std::ranges::find(ips_of(host), ip) != ips_of(host).end();
}

/// Without the addresses that the other host has as well.
std::vector<End> ends_of(const HostAddresses& host, const ConnectorAddress& other) {
  std::vector<End> ends;
  const std::span<const IpAddress> ips = ips_of(host.connector);
  for (std::size_t i = 0; i < ips.size(); ++i)
    if (!has(other, ips[i])) ends.push_back({ips[i], host.networks[i]});
  return ends;
}

/// An address of each on one network.
struct Pair {
  End lower;
  End higher;

  /// 0: neither end knows.
  std::uint64_t mbits() const noexcept {
    constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
    const auto known = [](std::uint64_t mbits) { return mbits == 0 ? kUnknown : mbits; };
    const std::uint64_t both = std::min(known(lower.network.mbits), known(higher.network.mbits));
    return both == kUnknown ? 0 : both;
  }
  bool is_by_the_ports_of(const Pair& other) const noexcept {
    return lower.network.port == other.lower.network.port &&
           higher.network.port == other.higher.network.port;
  }
  /// Two rails by both would meet somewhere.
  bool meets(const Pair& other) const noexcept {
    return lower.network.port == other.lower.network.port ||
           higher.network.port == other.higher.network.port || other.lower.reaches(lower.ip) ||
           lower.reaches(other.lower.ip);
  }
};

std::vector<Pair> pairs_of(const std::vector<End>& lower, const std::vector<End>& higher) {
  std::vector<Pair> pairs;
  for (const End& one : lower)
    for (const End& other : higher)
      if (one.reaches(other.ip) && other.reaches(one.ip)) pairs.push_back({one, other});
  return pairs;
}

}  // namespace

NetworkAddresses describe(std::span<const IpAddress> ips, std::span<const InterfaceAddress> own,
                          bool tells_speed) {
  NetworkAddresses networks{};
  std::vector<std::string> ports;
  for (std::size_t i = 0; i < ips.size() && i < networks.size(); ++i) {
    const auto at = std::ranges::find(own, ips[i], &InterfaceAddress::ip);
    if (at == own.end()) continue;
    auto port = std::ranges::find(ports, at->port);
    if (port == ports.end()) port = ports.insert(port, at->port);
    networks[i] = {.mbits = tells_speed ? at->mbits : 0,
                   .prefix_bits = static_cast<std::uint8_t>(at->prefix_bits),
                   .port = static_cast<std::uint8_t>(port - ports.begin())};
  }
  return networks;
}

std::vector<std::vector<IpAddress>> shared_networks(const HostAddresses& lower,
                                                    const HostAddresses& higher) {
  std::vector<Pair> pairs =
      pairs_of(ends_of(lower, higher.connector), ends_of(higher, lower.connector));
  std::uint64_t best = 0;
  for (const Pair& pair : pairs) best = std::max(best, pair.mbits());
  std::erase_if(pairs, [best](const Pair& pair) {
    return pair.mbits() != 0 && kLeastPart * pair.mbits() < best;
  });
  // One that nobody knows the speed of may be as fast as the fastest.
  std::ranges::stable_sort(pairs, std::greater<>(), [best](const Pair& pair) {
    return pair.mbits() == 0 ? best : pair.mbits();
  });
  std::vector<Pair> chosen;
  std::vector<std::vector<IpAddress>> shared;
  for (const Pair& pair : pairs) {
    const auto same = std::ranges::find_if(
        chosen, [&](const Pair& other) { return pair.is_by_the_ports_of(other); });
    if (same != chosen.end()) {
      auto& ips = shared[static_cast<std::size_t>(same - chosen.begin())];
      if (std::ranges::find(ips, pair.lower.ip) == ips.end()) ips.push_back(pair.lower.ip);
    } else if (std::ranges::none_of(chosen, [&](const Pair& other) { return pair.meets(other); })) {
      chosen.push_back(pair);
      shared.push_back({pair.lower.ip});
    }
  }
  return shared;
}

std::vector<IpAddress> addresses_of_both(const ConnectorAddress& one,
                                         const ConnectorAddress& other) {
  std::vector<IpAddress> both;
  for (const IpAddress& ip : ips_of(one))
    if (has(other, ip)) both.push_back(ip);
  if (both.size() == ips_of(one).size() || both.size() == ips_of(other).size()) return {};
  return both;
}

}  // namespace weft::p2p
