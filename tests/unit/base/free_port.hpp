// A TCP port of 127.0.0.1 on which nobody listens.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>

#include "base/os/fd.hpp"

namespace weft::tests {

/// Lies below the ports that the system gives to connections: else a connection of another process
/// could take it before the caller listens, or a connection to it could be given it as its own.
inline std::uint16_t free_port() {
  constexpr std::uint16_t kFirst = 10240;
  std::uint16_t first_given = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_given;
  if (first_given <= kFirst) first_given = 32768;
  std::random_device seed;
  std::uniform_int_distribution<int> ports(kFirst, first_given - 1);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto port = static_cast<std::uint16_t>(ports(seed));
    const os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_port = htons(port);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0) return port;
  }
  throw std::runtime_error("no port of 127.0.0.1 is free");
}

}  // namespace weft::tests
