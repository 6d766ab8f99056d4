// One tensor through a dynamic slot, compared with a fixed slot and one flag hop.
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/stream.hpp"
#include "benchmarks/workloads/ways.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

// The fixed slot takes the place of the limit.
constexpr std::uint32_t kFixed = kLimit;
constexpr std::uint32_t kRound[] = {kWeft, kFixed, kHop};

// Allowed time of a dynamic transfer: the fixed one's times kAllowance, for the allocation and the
// announcement's words, plus a hop for the read that follows.
constexpr double kAllowance = 1.15;

SlotSpec spec_for(const Stream& stream, Placement placement) {
  return {.name = placement == Placement::dynamic ? stream.name : "fixed." + stream.name,
          .dtype = DType::u8,
          .shape = Shape{static_cast<std::int64_t>(stream.size)},
          .placement = placement};
}

RunRow measure(Conductor& conductor, const Kind& kind, const RunBlock& run, std::size_t size,
               std::chrono::milliseconds budget) {
  const auto samples = conductor.lead(kRound, {.budget = budget}, run);
  RunRow row =
      compared(size, kind.name, samples[0], scaled_sum(kAllowance, samples[1], samples[2]));
  row.figures = {{"fixed_us", median(samples[1])},
                 {"hop_us", median(samples[2])},
                 {"dynamic/fixed", median(ratios(samples[0], samples[1]))}};
  return row;
}

}  // namespace

std::vector<RunRow> measure_dynamic(World& world, const RunOptions& options) {
  // The owner of a dynamic slot reads the tensor in any case, so the fixed slot's owner must, too.
  const Kind kinds[] = {{std::string(kTouched), true}};
  return for_each_size(options, [&](const Stream& stream) {
    const SharedMemory bare(world, options, "bench." + stream.name, 0);
    const auto outgoing = [&] {
      const auto sources = allocate_tensors(world, stream);
      OutgoingWays ways;
      for (const Placement placement : {Placement::dynamic, Placement::fixed})
        ways.push_back(std::make_unique<Put>(world, spec_for(stream, placement), sources));
      return ways;
    };
    const auto incoming = [&] {
      IncomingWays ways;
      for (const Placement placement : {Placement::dynamic, Placement::fixed})
        ways.push_back(std::make_unique<Taken>(world.expose(spec_for(stream, placement)), stream));
      return ways;
    };
    return run_stream(world, bare, stream, kinds, outgoing, incoming,
                      [&](Conductor& conductor, const Kind& kind, const RunBlock& run) {
                        return measure(conductor, kind, run, stream.size, options.budget);
                      });
  });
}

}  // namespace weft::bench
