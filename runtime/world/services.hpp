// Services of a World for the layers above the runtime, in addition to the public interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
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

namespace detail {

/// Ends of several kinds that one thread waits for together. No other thread may use them
/// meanwhile.
struct AwaitedEnds {
  std::span<Slot* const> slots;
  std::span<Request* const> requests;
  /// Ends the wait as well. Cheap, does not block; another thread that makes it true calls wake().
  std::function<bool()> woken;
};

}  // namespace detail

/// Waits until one of `ends` is ready or can't become so any more, or is woken. Returns an index:
/// of the slots first, then of the requests; their number if woken. Errors: timeout, forked.
Result<std::size_t> wait_any(World& world, const detail::AwaitedEnds& ends,
                             Deadline deadline) noexcept;
/// Makes the waits of this rank's threads look again. Any thread.
void wake(World& world) noexcept;

}  // namespace weft
