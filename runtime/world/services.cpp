#include "runtime/world/services.hpp"

#include "runtime/world/world_state.hpp"

namespace weft {

World keep(const World& world, const char* operation) {
  return WorldAccess::keep(world, operation);
}

Status over(const World& world, const char* operation) noexcept {
  const detail::WorldState& state = WorldAccess::state(world);
  return state.over() ? state.refusal(operation) : Status();
}

bool is_fork(const World& world) noexcept { return WorldAccess::state(world).local.forked(); }

const std::shared_ptr<Log>& log_of(World& world) noexcept { return WorldAccess::state(world).log; }

std::chrono::nanoseconds default_timeout(World& world) noexcept {
  return WorldAccess::state(world).local.waiter.default_timeout();
}

std::string suspicion_of(World& world, int rank) {
  return WorldAccess::state(world).mesh.suspicion(rank);
}

stats::Recorder& recorder_of(World& world) noexcept {
  return WorldAccess::state(world).local.recorder;
}

const std::shared_ptr<stats::StatsSegment>& stats_of(World& world) noexcept {
  return WorldAccess::state(world).local.stats;
}

ArenaRoom arena_room(World& world) {
  const p2p::LocalRank& local = WorldAccess::state(world).local;
  return {local.data->left(), local.published->left()};
}

ServerSettings server_settings(World& world) { return WorldAccess::state(world).server_settings; }

Result<std::size_t> wait_any(World& world, const detail::AwaitedEnds& ends,
                             Deadline deadline) noexcept {
  return WorldAccess::wait_any(world, ends, deadline);
}

void wake(World& world) noexcept { WorldAccess::state(world).local.ring(); }

}  // namespace weft
