// The verbs fabric's part of a rank's address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
};

struct VerbsPart {
  static constexpr std::uint8_t kVersion = 1;

  VerbsAddress port;
  ConnectorAddress connector;
};

}  // namespace weft::p2p::verbs
