// Where ranks listen: addresses of this host, and which of them peers may come by.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/rank_address.hpp"

namespace weft::p2p {

/// An IPv6 address, or an IPv4 one mapped into it, in network order.
using Place = std::array<std::byte, 16>;

/// As the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

bool is_ipv4(const Place& place) noexcept;
SocketAddress socket_address(const Place& place, std::uint16_t port) noexcept;
/// All zero for an address of another family.
Place place_of(const sockaddr& address) noexcept;

/// An address of an interface that is up.
struct InterfaceAddress {
  std::string name;
  Place place{};
  int prefix_bits = 128;  ///< of its subnet, as a prefix of the place: 96 more than IPv4 counts
  bool loopback = false;
};

/// Throws Error(system).
std::vector<InterfaceAddress> interface_addresses();

/// At most kMaxPlaces of them, the best first. `wanted` is WEFT_IFACE. Throws Error(bad_config)
/// when it names none of them.
std::vector<Place> choose_places(std::span<const InterfaceAddress> addresses,
                                 std::string_view wanted);

/// The peer's places in the order to try: those in a subnet of this host's come first.
std::vector<Place> order_of_trial(const ConnectorAddress& peer,
                                  std::span<const InterfaceAddress> own);

/// "10.0.0.1", "fd00::1".
std::string text(const Place& place);
/// "10.0.0.1:4711", "[fd00::1]:4711".
std::string text(const Place& place, std::uint16_t port);
/// Every place with its port.
std::string text(const ConnectorAddress& address);

}  // namespace weft::p2p
