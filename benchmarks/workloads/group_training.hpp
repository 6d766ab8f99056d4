// Steps of several workers and servers, each of its own: what weft, the limit and the peers share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// The lowest ranks work, the others serve: each worker's gradient goes to every server, a half to
/// each.
inline constexpr int kGroupWorkers = 4;
inline constexpr int kGroupServers = 2;
inline constexpr int kGroupRanks = kGroupWorkers + kGroupServers;

/// The half of `count` elements that a server holds, as [first, first + count).
struct Half {
  std::size_t first = 0;
  std::size_t count = 0;
};
constexpr Half half_of(std::size_t count, int server) noexcept {
  const std::size_t lower = count / 2;
  return server == 0 ? Half{0, lower} : Half{lower, count - lower};
}

/// Iteration of fill_gradient() that gives a worker's gradient of a step.
constexpr std::uint64_t gradient_of(std::uint64_t step, int worker) noexcept {
  return step + static_cast<std::uint64_t>(worker);
}

}  // namespace weft::bench
