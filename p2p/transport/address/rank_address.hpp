// What a rank tells the others of itself before they are connected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/os/cpus.hpp"

namespace weft::p2p {

/// Where a rank's connector listens: addresses that may reach it, the best first.
struct ConnectorAddress {
  static constexpr std::size_t kMaxIps = 4;

  std::uint16_t port = 0;                                ///< 0: it has none
  std::uint16_t count = 0;                               ///< of places
  std::array<std::array<std::byte, 16>, kMaxIps> ips{};  ///< IPv6, or IPv4 mapped into it
};

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
  std::uint16_t cm_port = 0;       ///< where the connection manager takes calls; 0: it is not used
  std::array<std::byte, 16> cm_ip{};  ///< IPv6, or IPv4 mapped into it
};

/// Of constant size, so that the bootstrap fence costs the same per rank whatever the fabrics.
struct RankAddress {
  static constexpr std::uint32_t kMagic = 0x77656674;  // "weft"
  static constexpr std::uint32_t kVersion = 8;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::array<std::byte, 16> host_id{};  ///< boot and namespaces: equal means shared memory
  std::array<char, 64> host{};          ///< the host's name, for people; ends with a NUL
  os::CpuSet cpus{};                    ///< those it may run on: whether ranks share processors
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::array<std::byte, 16> socket{};  ///< names the abstract Unix socket it listens on
  ConnectorAddress connector;          ///< the verbs fabric's
  ConnectorAddress tcp;                ///< the tcp fabric's
  VerbsAddress verbs;
  std::array<std::byte, 32> job_secret{};  ///< drawn by rank 0; zero in the others' addresses
};
static_assert(std::is_trivially_copyable_v<RankAddress>);

}  // namespace weft::p2p
