// The tcp fabric's part of a rank's address.
#pragma once

#include <cstdint>

#include "p2p/transport/address/ip_address.hpp"

namespace weft::p2p::tcp {

struct TcpAddress {
  static constexpr std::uint8_t kVersion = 2;

  ConnectorAddress connector;
};

}  // namespace weft::p2p::tcp
