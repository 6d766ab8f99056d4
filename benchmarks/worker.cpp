#include "benchmarks/worker.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>

namespace weft::bench {
namespace {

std::vector<RunRow> measure(World& world, const RunOptions& options) {
  if (options.benchmark == kLatency) return measure_latency(world, options);
  if (options.benchmark == kPutBandwidth) return measure_put_bandwidth(world, options);
  return measure_push_pull(world, options);
}

}  // namespace

int work(const RunOptions& options) try {
  World world = World::join();
  if (world.size() != 2)
    throw std::runtime_error(
        fmt::format("a run needs two ranks, here are {}; start it with mpirun -n 2", world.size()));
  const auto rows = measure(world, options);
  if (world.rank() == 0) fmt::print("{}\n", to_line(rows));
  std::fflush(stdout);
  world.leave().or_throw();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weft-bench: {}: {}\n", options.benchmark, error.what());
  return 1;
}

void require_data(bool right, std::size_t size, std::uint64_t iteration) {
  if (!right)
    throw std::runtime_error(fmt::format(
        "wrong data: {} bytes, iteration {}, differ from what was sent", size, iteration));
}

}  // namespace weft::bench
