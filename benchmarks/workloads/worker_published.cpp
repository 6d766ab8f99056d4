// Tensors that one rank publishes and others get or view, against a bare copy out of shared memory
// or, if nothing is copied, against bare flags.
#include <algorithm>

#include "benchmarks/harness/stream.hpp"
#include "benchmarks/workloads/ways.hpp"
#include "benchmarks/workloads/worker.hpp"

namespace weft::bench {
namespace {

// A view's cost does not depend on the contents, so only this much is rewritten each time.
constexpr std::size_t kStampedBytes = 64;

std::size_t bare_bytes(const World& world, const Stream& stream) {
  return world.rank() == 0 ? stream.tensors * stream.size : 0;
}

std::vector<RunRow> measure_gets(World& world, const Stream& stream, std::span<const Kind> kinds,
                                 const RunOptions& options) {
  const SharedMemory bare(world, options, "bench." + stream.name, bare_bytes(world, stream));
  const auto outgoing = [&] {
    OutgoingWays ways;
    ways.push_back(std::make_unique<Published>(world, stream));
    for ([[maybe_unused]] const std::uint32_t variant : kCopies)
      ways.push_back(std::make_unique<BareTold>(bare, stream));
    return ways;
  };
  const auto incoming = [&] {
    // Each way has tensors of its own, for the reason given at copy_out_bytes().
    IncomingWays ways;
    ways.push_back(std::make_unique<Got>(world, stream, allocate_tensors(world, stream)));
    for (const std::uint32_t variant : kCopies)
      ways.push_back(
          std::make_unique<BareCopyIn>(bare, stream, allocate_tensors(world, stream), variant));
    return ways;
  };
  return run_stream(world, bare, stream, kinds, outgoing, incoming,
                    against_limit(stream, kCopies, options));
}

}  // namespace

std::vector<RunRow> measure_get_bandwidth(World& world, const RunOptions& options) {
  return for_each_size(options, [&](Stream stream) {
    stream.tensors = depth_for(stream.size);
    return measure_gets(world, stream, kTouchedOrNot, options);
  });
}

std::vector<RunRow> measure_publish(World& world, const RunOptions& options) {
  const int readers = world.size() - 1;
  const Kind kinds[] = {{std::to_string(readers) + (readers == 1 ? " reader" : " readers"), false}};
  return for_each_size(
      options, [&](const Stream& stream) { return measure_gets(world, stream, kinds, options); });
}

std::vector<RunRow> measure_view(World& world, const RunOptions& options) {
  const Kind kinds[] = {{std::string(kUntouched), false}};
  return for_each_size(options, [&](Stream stream) {
    if (!options.check) stream.rewritten = std::min(stream.size, kStampedBytes);
    const SharedMemory bare(world, options, "bench." + stream.name, bare_bytes(world, stream));
    const auto outgoing = [&] {
      OutgoingWays ways;
      ways.push_back(std::make_unique<Published>(world, stream));
      ways.push_back(std::make_unique<BareTold>(bare, stream));
      return ways;
    };
    const auto incoming = [&] {
      IncomingWays ways;
      ways.push_back(std::make_unique<Viewed>(world, stream));
      ways.push_back(std::make_unique<BareSeen>(bare, stream));
      return ways;
    };
    return run_stream(world, bare, stream, kinds, outgoing, incoming,
                      against_limit(stream, kNoCopy, options));
  });
}

}  // namespace weft::bench
