// Collectives of ranks that don't share memory, timed by rank 0's clock alone, since ranks can't
// see each other's flags.
#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "benchmarks/harness/collective.hpp"
#include "benchmarks/harness/collective_call.hpp"
#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/wire.hpp"
#include "benchmarks/limits/bare_stream.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

using Timer = std::chrono::steady_clock;

double microseconds_since(Timer::time_point start) {
  return std::chrono::duration<double, std::micro>(Timer::now() - start).count();
}

RunRow measure(World& world, Collectives& group, BareStream* bare, std::size_t size,
               const RunOptions& options) {
  const CollectiveShape shape = shape_of(options.benchmark, size / sizeof(float), world.size());
  const Tensor in = world.allocate(DType::f32, {static_cast<std::int64_t>(shape.in)});
  const Tensor out = world.allocate(DType::f32, {static_cast<std::int64_t>(shape.out)});
  Plan plan = group.plan(call_of(options.benchmark, in, out));
  Plan all_here = group.plan(barrier());
  const std::uint32_t operations = wire_operations(size);
  const std::uint32_t blocks = wire_blocks(options);
  std::uint64_t turn = 0;
  std::vector<double> samples;
  // The unavoidable traffic: both tensors cross the wire, at the same time if there are two ranks.
  const bool both_ways = world.size() == 2 && options.benchmark == kAllReduce;
  LimitWays limit = both_ways ? BareStream::ways_to_exchange(size) : BareStream::ways_to_send(size);
  const auto operate = [&] {
    const float value = collective_value(world.rank(), ++turn);
    std::fill_n(in.as<float>().data(), shape.in, value);
    plan.run().or_throw();
  };
  for (std::uint32_t block = 0; block <= blocks; ++block) {
    all_here.run().or_throw();
    operate();
    const auto start = Timer::now();
    for (std::uint32_t i = 0; i < operations; ++i) operate();
    const double spent = microseconds_since(start) / operations;
    if (options.check)
      require_data(collective_right(options.benchmark,
                                    (options.benchmark == kBroadcast ? in : out).as<float>(), shape,
                                    turn, world.size()),
                   out.bytes(), turn);
    if (bare != nullptr && both_ways) bare->exchange(size, operations, limit);
    if (bare != nullptr && !both_ways) bare->send(size, operations, limit);
    if (block > 0) samples.push_back(spent);  // the first registers memory and connects
  }
  if (world.rank() != 0) return {};
  return limit.compared(size, kF32, samples);
}

}  // namespace

std::vector<RunRow> measure_wire_collective(World& world, const RunOptions& options) {
  Collectives group = Collectives::open(world);
  const int last = world.size() - 1;
  std::optional<BareStream> bare;
  if (world.rank() == 0 || world.rank() == last) bare.emplace(world, last);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes)
    rows.push_back(measure(world, group, bare ? &*bare : nullptr, size, options));
  return rows;
}

}  // namespace weft::bench
