// The verbs fabric's part of a rank's address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p::verbs {

/// A NIC port that a rank's queue pairs are on.
struct VerbsAddress {
  std::uint8_t present = 0;      ///< 0: it has none, or none that works: `why_not`
  std::uint8_t link_layer = 0;   ///< IBV_LINK_LAYER_*
  std::uint8_t mtu = 0;          ///< an ibv_mtu
  std::uint8_t queue_pairs = 0;  ///< per peer
  std::uint16_t lid = 0;
  std::uint8_t iwarp = 0;
  std::uint8_t gid_type = 0;  ///< an ibv_gid_type
  std::array<std::byte, 16> gid{};
  std::array<char, 24> device{};   ///< "mlx5_0:1"; ends with a NUL
  std::array<char, 87> why_not{};  ///< ends with a NUL
  std::uint8_t reads = 0;          ///< that a queue pair may have under way
  std::uint16_t cm_port = 0;       ///< where the connection manager listens; 0: it is not used
  IpAddress cm_ip{};
  std::uint8_t network_bits = 0;  ///< of `gid`, from its front: equal in ports of one network
  std::uint32_t rate = 0;         ///< megabits per second; 0: not known
};

/// Ports of one rank, at most.
inline constexpr std::size_t kMostRails = 4;

/// A port besides the first, of the same kind; the rest is as the first has it.
struct FurtherPort {
  std::array<std::byte, 16> gid{};
  std::array<char, 24> device{};  ///< ends with a NUL
  std::uint32_t rate = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;
  std::uint8_t reads = 0;
  std::uint8_t network_bits = 0;
};

struct VerbsPart {
  static constexpr std::uint8_t kVersion = 2;

  VerbsAddress port;               ///< the nearest
  std::uint8_t further_count = 0;  ///< of `further`; no more than it holds is believed
  std::array<FurtherPort, kMostRails - 1> further{};
  ConnectorAddress connector;

  /// Requires that there is room.
  void add(const VerbsAddress& another) noexcept;
  /// All ports, the nearest first; none if the first is not present.
  std::vector<VerbsAddress> ports() const;
};

/// A port of each end that are connected, by index in its rank's list.
struct PortPair {
  std::size_t own = 0;
  std::size_t peer = 0;
};
/// The ports by which two ranks are connected, the first for what is not spread: ports of one
/// network, the nearest first, each once. If no two of theirs are of one network, the nearest of
/// both, which routers may connect. Both ends get the same, if `own_is_lower` tells the lower rank.
std::vector<PortPair> match_ports(const std::vector<VerbsAddress>& own,
                                  const std::vector<VerbsAddress>& peer, bool own_is_lower);

}  // namespace weft::p2p::verbs
