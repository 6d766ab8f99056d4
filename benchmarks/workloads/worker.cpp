#include "benchmarks/workloads/worker.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>

#include "base/config.hpp"
#include "benchmarks/harness/flags.hpp"

namespace weft::bench {
namespace {

struct Benchmark {
  std::string_view name;
  std::vector<RunRow> (*measure)(World& world, const RunOptions& options);
};

constexpr Benchmark kBenchmarks[] = {
    {kLatency, measure_latency},
    {kPutBandwidth, measure_put_bandwidth},
    {kGetBandwidth, measure_get_bandwidth},
    {kView, measure_view},
    {kDynamic, measure_dynamic},
    {kPublish, measure_publish},
    {kAttach, measure_attach},
    {kAdopt, measure_adopt},
    {kRendezvous, measure_rendezvous},
    {kPushPull, measure_push_pull},
    {kPsDense, measure_push_pull},
    {kPsGroup, measure_group},
    {kPsReplay, measure_replay},
    {kPsSparse, measure_rows},
    {kGraphReplay, measure_graph_replay},
    {kTransfer, measure_transfer},
    {kSendRecv, measure_send_recv},
    {kMessageRate, measure_message_rate},
    {kAllReduce, measure_collective},
    {kBroadcast, measure_collective},
    {kAllGather, measure_collective},
    {kReduceScatter, measure_collective},
    {kAllToAll, measure_collective},
    {kBarrier, measure_collective},
    {kChecks, measure_checks},
    {kGpu, measure_gpu},
    {kWire, measure_wire},
#if defined(WEFT_HAS_VERBS)
    {kRdma, measure_rdma},
#endif
};

std::vector<RunRow> measure(World& world, const RunOptions& options) {
  for (const Benchmark& benchmark : kBenchmarks)
    if (benchmark.name == options.benchmark) return benchmark.measure(world, options);
  throw std::runtime_error("no benchmark has that name");
}

}  // namespace

int work(const RunOptions& options) try {
  if (const auto timeout = Config::read().time(Setting::timeout)) set_patience(*timeout);
  World world = World::join();
  if (world.size() != options.ranks)
    throw std::runtime_error(
        fmt::format("this run needs {0} ranks, here are {1}; start it with mpirun -n {0}",
                    options.ranks, world.size()));
  const auto rows = measure(world, options);
  if (world.rank() == 0) fmt::print("{}\n", to_line(rows));
  std::fflush(stdout);
  world.leave().or_throw();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "weft-bench: {}: {}\n", options.benchmark, error.what());
  return 1;
}

}  // namespace weft::bench
