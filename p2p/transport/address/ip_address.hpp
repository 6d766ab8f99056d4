// IP addresses of this host's interfaces, and which of them peers may use.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::p2p {

/// An IPv6 address, or an IPv4 one mapped into it, in network order.
using IpAddress = std::array<std::byte, 16>;

/// Where a rank's connector listens: addresses that may reach it, the best first.
struct ConnectorAddress {
  static constexpr std::size_t kMaxIps = 4;

  std::uint16_t port = 0;   ///< 0: it has none
  std::uint16_t count = 0;  ///< of `ips`
  std::array<IpAddress, kMaxIps> ips{};
};

/// As the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

bool is_ipv4(const IpAddress& ip) noexcept;
SocketAddress socket_address(const IpAddress& ip, std::uint16_t port) noexcept;
/// All zero for an address of another family.
IpAddress ip_address_of(const sockaddr& address) noexcept;
/// Of one end of a socket; `end` is ::getsockname or ::getpeername. All zero where it has none.
IpAddress address_of(int socket, int (*end)(int, sockaddr*, socklen_t*)) noexcept;

/// The address from which this host's routes send to that one; all zero where none leads there.
IpAddress source_towards(const IpAddress& ip) noexcept;

/// An address of an interface that is up.
struct InterfaceAddress {
  std::string name;
  IpAddress ip{};
  int prefix_bits = 128;  ///< of its subnet, as a prefix of `ip`: 96 more than IPv4 counts
  bool loopback = false;
  std::string port = {};    ///< what carries it: of a VLAN the interface below, else itself
  std::uint32_t mbits = 0;  ///< per second, as the kernel tells; 0: it does not
};

/// Whether the first `bits` of both are alike.
bool in_prefix(const IpAddress& ip, const IpAddress& prefix, int bits) noexcept;

/// This host's interfaces.
struct Interfaces {
  std::vector<InterfaceAddress> addresses;
  std::vector<std::string> bare;  ///< the others, by name: down, or without an IP address
};

/// Throws Error(system).
Interfaces interfaces();
/// Of those that are up alone. Throws Error(system).
std::vector<InterfaceAddress> interface_addresses();

struct ChosenIps {
  std::vector<IpAddress> ips;         ///< at most kMaxIps, the best first
  std::vector<std::string> left_out;  ///< interfaces that were named and have no address
};

/// `wanted` is WEFT_IFACE. If that is a list, the first address of each that it names comes before
/// all second ones, in the order of the list. Throws Error(bad_config) if a name is not there, is
/// there twice, or if none that is named has an address.
ChosenIps choose_ip_addresses(const Interfaces& host, std::string_view wanted);

/// All addresses of the interfaces that have any of `ips`.
std::vector<IpAddress> addresses_beside(std::span<const InterfaceAddress> host,
                                        std::span<const IpAddress> ips);

/// The peer's IP addresses, most likely reachable first: those in a subnet of `own` lead. With
/// `only_own` they are all, if there are any.
std::vector<IpAddress> sort_by_reachability(const ConnectorAddress& peer,
                                            std::span<const InterfaceAddress> own, bool only_own);

/// "10.0.0.1", "fd00::1".
std::string text(const IpAddress& ip);
/// "10.0.0.1:4711", "[fd00::1]:4711".
std::string text(const IpAddress& ip, std::uint16_t port);
/// Every address with the port.
std::string text(const ConnectorAddress& address);

}  // namespace weft::p2p
