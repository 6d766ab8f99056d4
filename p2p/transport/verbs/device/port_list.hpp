// The RDMA ports of this machine.
#pragma once

#include <string>
#include <vector>

#include "p2p/transport/verbs/api/handles.hpp"
#include "p2p/transport/verbs/device/port_choice.hpp"

namespace weft::p2p::verbs {

struct PortList {
  std::vector<Context> devices;  ///< opened; none where it can't be
  std::vector<Port> ports;       ///< of all devices; `device_index` counts in `devices`
};

/// Opens every device and asks every port. Port::problem says why a port can't be asked. Throws
/// Error(unreachable) where there is no list at all.
PortList list_ports(Verbs& verbs);

/// Opens a device of the list once more; null where it can't be.
Context open_again(Verbs& verbs, const std::string& device);

/// Reads the port's GID table.
std::vector<ibv_gid_entry> list_gids(Verbs& verbs, ibv_context* context, std::uint8_t port,
                                     int table_length);

}  // namespace weft::p2p::verbs
