// Which of a host's RDMA ports a rank is reached by.
#pragma once

#include "p2p/transport/verbs/api/verbs.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/verbs/device/gid_choice.hpp"
#include "p2p/transport/verbs/device/options.hpp"
#include "topology/placement/rank_placement.hpp"

namespace weft::p2p::verbs {

/// The known facts of one port.
struct Port {
  std::string device;  ///< "mlx5_0"
  std::uint8_t number = 1;
  std::size_t device_index = 0;  ///< of who found it
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::string problem;  ///< why it could not be asked; what follows is unknown then
  ibv_port_attr attributes{};
  std::vector<ibv_gid_entry> gids;

  /// "mlx5_0:1"
  std::string name() const;
  std::uint8_t link_layer() const noexcept;
};

/// Megabits per second; 0 where the encoding is not known.
std::uint32_t rate_of(const ibv_port_attr& attributes) noexcept;
/// "up, RoCE, 100 Gb/s, MTU 4096"
std::string text(const Port& port);
/// Bytes.
int bytes_of(ibv_mtu mtu) noexcept;

/// Why it can't be used; empty for a port that can, were it not for its GIDs.
std::string fault_of(const Port& port, const VerbsOptions& options);
/// The GID that packets are sent from, by choose_gid.
GidChoice gid_of(const Port& port, const VerbsOptions& options);
/// By rate, then by name.
bool is_better(const Port& a, const Port& b);
/// `nic`: a device or a port; empty: any.
bool is_named(const Port& port, std::string_view nic);
/// Throws Error(bad_config): WEFT_NIC names no port.
[[noreturn]] void refuse_name(std::span<const Port> ports, const std::string& nic);

struct PortChoice {
  std::optional<std::size_t> chosen;
  GidChoice gid;                    ///< of the chosen port
  std::vector<std::string> passed;  ///< of each other port, why it is not it
  std::string why;                  ///< the chosen port was chosen
  bool by_setting = false;          ///< a port would have done, but for what WEFT_IB_GID says
};

/// The port that WEFT_NIC names; otherwise the one that topology has placed this rank at; otherwise
/// the fastest; among equals the first by name. It is active and has a GID to send from. Throws
/// Error(bad_config) where WEFT_NIC names none.
PortChoice choose_port(std::span<const Port> ports, const VerbsOptions& options,
                       const topology::RankPlacement& placement = {});

}  // namespace weft::p2p::verbs
