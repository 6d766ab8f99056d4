// Which of this host's addresses stands for a port.
#pragma once

#include <cstdint>

#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/verbs/api/handles.hpp"
#include "p2p/transport/verbs/device/device.hpp"

namespace weft::p2p::verbs {

/// Calls come in by it.
struct Listener {
  IpAddress ip{};
  std::uint16_t port = 0;
  ConnectionId id;
};

/// Listens at the address of the device's port: that of its GID if it is one, otherwise
/// (InfiniBand, iWARP) the first of this host's that the connection manager finds on the port.
/// Throws Error(unreachable): there is none, with what to do.
Listener listen_at_own_ip(ConnectionManager& manager, rdma_event_channel* events,
                          const Device& device);

}  // namespace weft::p2p::verbs
