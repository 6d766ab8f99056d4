// Services of a World for the layers above the runtime, in addition to the public interface.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "weft/world.hpp"

namespace weft {

/// The log of this rank. A caller's copy of the pointer may outlive the world. Any thread.
const std::shared_ptr<Log>& log_of(World& world) noexcept;
/// The value of WEFT_TIMEOUT. Any thread.
std::chrono::nanoseconds default_timeout(World& world) noexcept;
/// Why a connected rank is suspected to be stopped or silent; empty if it is not suspected. Any
/// thread.
std::string suspicion_of(World& world, int rank);

/// The settings that the parameter server reads: WEFT_PS_SERVERS and WEFT_PS_REPLICAS.
struct ServerSettings {
  std::string servers;
  int replicas = 0;
};
ServerSettings server_settings(World& world);

}  // namespace weft
