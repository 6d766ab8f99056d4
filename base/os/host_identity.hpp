// The identity of this host, for the purpose of sharing memory.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace weft::os {

struct HostIdentity {
  /// Equal for two processes only if they run under the same boot of the same kernel in the same
  /// network and PID namespaces. Then abstract sockets and pidfds of one reach the other.
  std::array<std::byte, 16> id{};
  std::string name;  ///< the host's name, for people
  std::string boot;  ///< the kernel's name of the boot; processes of one boot share its clocks
};

/// Throws Error(system) if /proc does not have the information.
HostIdentity host_identity();

}  // namespace weft::os
