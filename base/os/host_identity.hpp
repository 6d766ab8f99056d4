// Which host this is, as far as sharing memory goes.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace weft::os {

struct HostIdentity {
  /// Equal for two processes only if they run under one boot of one kernel and see the same network
  /// and the same process numbers: then abstract sockets and pidfds reach from one to the other.
  std::array<std::byte, 16> id{};
  std::string name;  ///< the host's name, for people
  std::string boot;  ///< the boot as the kernel names it: the processes of one share its clocks
};

/// Throws Error(system) where /proc does not tell.
HostIdentity host_identity();

}  // namespace weft::os
