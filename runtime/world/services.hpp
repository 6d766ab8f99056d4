// Services of a World for the layers above the runtime, in addition to the public interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/log.hpp"
#include "base/stats/recorder.hpp"
#include "base/stats/stats_segment.hpp"
#include "base/stats/waits.hpp"
#include "weft/world.hpp"

namespace weft {

/// A second handle of a world, whose end ends nothing: for objects that call the world and may
/// outlive it. Throws Error: bad_argument (an empty world), forked, closed.
World keep(const World& world, const char* operation);
/// Why calls of objects made from the world are refused: closed, or forked; ok while they are not.
Status over(const World& world, const char* operation) noexcept;
/// Whether this process is a fork of the world's.
bool is_fork(const World& world) noexcept;

/// The log of this rank. A caller's copy of the pointer may outlive the world. Any thread.
const std::shared_ptr<Log>& log_of(World& world) noexcept;
/// The value of WEFT_TIMEOUT. Any thread.
std::chrono::nanoseconds default_timeout(World& world) noexcept;
/// " (it is ...)" for a connected rank that is suspected to be stopped or silent; empty for others.
/// Any thread.
std::string suspicion_of(World& world, int rank);

/// Events and state of this rank that tools show. Any thread; valid as long as the world.
stats::Recorder& recorder_of(World& world) noexcept;
const std::shared_ptr<stats::StatsSegment>& stats_of(World& world) noexcept;

/// Bytes that WEFT_ARENA_MAX leaves in each arena of tensors; 2^64 - 1 without a limit. Any thread.
struct ArenaRoom {
  std::uint64_t data = 0;
  std::uint64_t published = 0;
};
ArenaRoom arena_room(World& world);

/// The settings that the parameter server reads: WEFT_PS_SERVERS and WEFT_PS_REPLICAS.
struct ServerSettings {
  std::string servers;
  int replicas = 0;
};
ServerSettings server_settings(World& world);

namespace detail {

/// Something to wait for that is no handle.
class Condition {
 public:
  /// True too if it can't come any more. Cheap, does not block; called by one thread at a time.
  virtual bool holds() noexcept = 0;

 protected:
  ~Condition() = default;
};

/// A wait that another thread may end.
struct AwaitedEnds {
  WaitSet set{};
  /// A condition comes to hold with a ring of this rank's doorbell: a signal, an arrival, wake().
  std::span<Condition* const> conditions{};
  /// Ends the wait as well. Cheap, does not block; another thread that makes it true calls wake().
  std::function<bool()> woken{};
  /// How tools see the wait.
  stats::WaitAbout about{.operation = stats::Operation::any};
};

}  // namespace detail

/// As World::wait_any, for a set that may be empty, and for conditions, which have the last
/// indices. Returns the number of all handles and conditions if woken.
Result<std::size_t> wait_any(World& world, const detail::AwaitedEnds& ends,
                             Deadline deadline) noexcept;
/// Makes the waits of this rank's threads look again. Any thread.
void wake(World& world) noexcept;

}  // namespace weft
