// The RDMA devices of a host and their ports, as /sys shows them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/discover/files.hpp"
#include "topology/model/model.hpp"

namespace weft::doctor {

/// An entry of a port's table.
struct Gid {
  int index = 0;
  std::array<std::uint8_t, 16> bytes{};
  std::string type{};        ///< "RoCE v2", "IB/RoCE v1"
  std::string interface {};  ///< "ens1f0np0"

  bool is_ipv4() const noexcept;
  bool is_link_local() const noexcept;
  /// "10.9.0.10" for an IPv4 address mapped into it, otherwise as IPv6.
  std::string text() const;
};

struct RdmaPort {
  std::string device;
  int number = 1;
  std::string state{};       ///< "ACTIVE"; empty: not told
  std::string physical{};    ///< "LinkUp", "Disabled", "Polling"
  std::string link_layer{};  ///< "InfiniBand", "Ethernet"
  double gbps = 0;           ///< 0: not told
  int lanes = 0;             ///< 0: not told
  std::vector<Gid> gids{};   ///< without empty entries
  bool hides_gids = false;   ///< the table is there, but of another network namespace

  bool is_active() const noexcept { return state == "ACTIVE"; }
  bool is_ethernet() const noexcept { return link_layer == "Ethernet"; }
  /// "mlx5_0:1"
  std::string name() const;
};

struct RdmaDevice {
  std::string name;
  int pci = topology::kNone;  ///< in Model::pci; kNone: a device of software
  std::string driver{};       ///< "mlx5_core"
  std::string uverbs{};       ///< "uverbs0"; empty: the kernel shows none
  std::vector<RdmaPort> ports{};
};

/// What /sys/class/infiniband tells beside what is in the model.
std::vector<RdmaDevice> rdma_devices(const topology::Files& files, const topology::Model& model);

struct GidRule {
  std::optional<Gid> chosen;
  std::string why{};           ///< it was chosen, or none can be
  std::vector<int> as_good{};  ///< others that only their index puts behind
};

/// The GID that weft sends from. InfiniBand: index 0. Ethernet: of type RoCE v2, an IPv4 address
/// before a global IPv6 one, then the lowest index; never a link-local one. `wanted` (WEFT_IB_GID)
/// overrides, if it is in the table.
GidRule choose_gid(const RdmaPort& port, std::optional<int> wanted);

}  // namespace weft::doctor
