// Training steps of several workers and dedicated servers: the part shared by weft, the limit and
// the peers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::bench {

/// The lowest ranks work and the others serve. Each server holds one half of each worker's
/// gradient.
inline constexpr int kGroupWorkers = 4;
inline constexpr int kGroupServers = 2;
inline constexpr int kGroupRanks = kGroupWorkers + kGroupServers;

/// The half of `count` elements that a server holds: [first, first + count).
struct Half {
  std::size_t first = 0;
  std::size_t count = 0;
};
constexpr Half half_of(std::size_t count, int server) noexcept {
  const std::size_t lower = count / 2;
  return server == 0 ? Half{0, lower} : Half{lower, count - lower};
}

/// Iteration of fill_gradient() for a worker's gradient of `step`.
constexpr std::uint64_t gradient_of(std::uint64_t step, int worker) noexcept {
  return step + static_cast<std::uint64_t>(worker);
}

}  // namespace weft::bench
