// The RDMA devices of a host and their ports, read from /sys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/discover/files.hpp"
#include "topology/model/model.hpp"

namespace weft::doctor {

/// An entry of a port's GID table.
struct Gid {
  int index = 0;
  std::array<std::uint8_t, 16> bytes{};
  std::string type{};        ///< "RoCE v2", "IB/RoCE v1"
  std::string interface {};  ///< "ens1f0np0"

  bool is_ipv4() const noexcept;
  bool is_link_local() const noexcept;
  /// "10.9.0.10" for an IPv4-mapped address, otherwise in IPv6 notation.
  std::string text() const;
};

struct RdmaPort {
  std::string device;
  int number = 1;
  std::string state{};       ///< "ACTIVE"; empty: not known
  std::string physical{};    ///< "LinkUp", "Disabled", "Polling"
  std::string link_layer{};  ///< "InfiniBand", "Ethernet"
  double gbps = 0;           ///< 0: not known
  int lanes = 0;             ///< 0: not known
  std::vector<Gid> gids{};   ///< without empty entries
  bool hides_gids = false;   ///< the table exists, but belongs to another network namespace

  bool is_active() const noexcept { return state == "ACTIVE"; }
  bool is_ethernet() const noexcept { return link_layer == "Ethernet"; }
  /// "mlx5_0:1"
  std::string name() const;
};

struct RdmaDevice {
  std::string name;
  int pci = topology::kNone;  ///< in Model::pci; kNone: a software device
  std::string driver{};       ///< "mlx5_core"
  std::string uverbs{};       ///< "uverbs0"; empty: the kernel offers no verbs device
  std::vector<RdmaPort> ports{};
};

/// The contents of /sys/class/infiniband that `model` does not have.
std::vector<RdmaDevice> rdma_devices(const topology::Files& files, const topology::Model& model);

struct GidRule {
  std::optional<Gid> chosen;
  std::string why{};           ///< the reason for `chosen`, or why no GID can be used
  std::vector<int> as_good{};  ///< indices of GIDs that rank behind only because of their index
};

/// Chooses the GID that weft sends from. InfiniBand: index 0. Ethernet: type RoCE v2, an IPv4
/// address before a global IPv6 address, then the lowest index; never a link-local address.
/// `wanted` (WEFT_IB_GID) overrides this if the table has that index.
GidRule choose_gid(const RdmaPort& port, std::optional<int> wanted);

}  // namespace weft::doctor
