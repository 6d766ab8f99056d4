// The networks that two hosts share, by what each tells of its addresses.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p {

/// Told by a rank of one of its addresses.
struct NetworkAddress {
  std::uint32_t mbits = 0;  ///< per second, as the kernel tells; 0: not known, or not to be judged
  std::uint8_t prefix_bits = 128;
  std::uint8_t port = 0;  ///< the same number: the same port of the host
  std::uint16_t reserved = 0;
};
/// Those of a ConnectorAddress, in its order.
using NetworkAddresses = std::array<NetworkAddress, ConnectorAddress::kMaxIps>;

/// The addresses are among `own`. Without `tells_speed` none is said to be slow.
NetworkAddresses describe(std::span<const IpAddress> ips, std::span<const InterfaceAddress> own,
                          bool tells_speed);

struct HostAddresses {
  const ConnectorAddress& connector;
  const NetworkAddresses& networks;
};

/// The addresses of `lower` on each network that both are on, the fastest first; else in the order
/// of `lower`. Both ends compute the same. A port and a subnet are used once, though they may have
/// several addresses: those of one network stand together. Left out is a network whose speed is
/// known and under a quarter of the fastest one's, and an address that both have: it leads back to
/// the host that calls it. So two ranks of one host share none.
std::vector<std::vector<IpAddress>> shared_networks(const HostAddresses& lower,
                                                    const HostAddresses& higher);
/// Addresses that two hosts have alike, such as that of a bridge within each; none if one of them
/// has no other: then they are two ranks of one host.
std::vector<IpAddress> addresses_of_both(const ConnectorAddress& one,
                                         const ConnectorAddress& other);

}  // namespace weft::p2p
