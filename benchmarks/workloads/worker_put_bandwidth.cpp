// Whole tensors put into a slot, against the best bare copy into shared memory.
#include "benchmarks/harness/stream.hpp"
#include "benchmarks/workloads/ways.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

SlotSpec spec_for(const Stream& stream) {
  return {.name = stream.name,
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(stream.size)},
          .depth = static_cast<std::uint32_t>(stream.tensors)};
}

}  // namespace

std::vector<RunRow> measure_put_bandwidth(World& world, const RunOptions& options) {
  return for_each_size(options, [&](Stream stream) {
    stream.tensors = depth_for(stream.size);
    const SharedMemory bare(world, options, "bench." + stream.name,
                            world.rank() == 0 ? copy_out_bytes(stream) : 0);
    const auto outgoing = [&] {
      const auto sources = allocate_tensors(world, stream);
      OutgoingWays ways;
      ways.push_back(std::make_unique<Put>(world, spec_for(stream), sources));
      for (const std::uint32_t variant : kCopies)
        ways.push_back(std::make_unique<BareCopyOut>(bare, sources, variant));
      return ways;
    };
    const auto incoming = [&] {
      IncomingWays ways;
      ways.push_back(std::make_unique<Taken>(world.expose(spec_for(stream)), stream));
      for (const std::uint32_t variant : kCopies)
        ways.push_back(std::make_unique<BareSeen>(bare, stream, variant));
      return ways;
    };
    return run_stream(world, bare, stream, kTouchedOrNot, outgoing, incoming,
                      against_limit(stream, kCopies, options));
  });
}

}  // namespace weft::bench
