// A rank of a measured weft run.
#pragma once

#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Joins the job, runs the benchmark and, on rank 0, prints the rows. Returns the exit code.
int work(const RunOptions& options);

/// Collective; rank 0 returns the rows. They throw weft::Error and, with -c, std::runtime_error if
/// data is wrong.
std::vector<RunRow> measure_latency(World& world, const RunOptions& options);
std::vector<RunRow> measure_put_bandwidth(World& world, const RunOptions& options);
std::vector<RunRow> measure_get_bandwidth(World& world, const RunOptions& options);
std::vector<RunRow> measure_view(World& world, const RunOptions& options);
std::vector<RunRow> measure_dynamic(World& world, const RunOptions& options);
std::vector<RunRow> measure_publish(World& world, const RunOptions& options);
std::vector<RunRow> measure_attach(World& world, const RunOptions& options);
std::vector<RunRow> measure_adopt(World& world, const RunOptions& options);
std::vector<RunRow> measure_rendezvous(World& world, const RunOptions& options);
std::vector<RunRow> measure_push_pull(World& world, const RunOptions& options);
/// Four ranks work, two serve.
std::vector<RunRow> measure_group(World& world, const RunOptions& options);
/// Both ranks are workers and shards.
std::vector<RunRow> measure_replay(World& world, const RunOptions& options);
/// The same work as dataflow graphs.
std::vector<RunRow> measure_graph_replay(World& world, const RunOptions& options);
/// Takes about 3 GiB: ten million rows each for weft and for the limit.
std::vector<RunRow> measure_rows(World& world, const RunOptions& options);
std::vector<RunRow> measure_transfer(World& world, const RunOptions& options);
std::vector<RunRow> measure_send_recv(World& world, const RunOptions& options);
std::vector<RunRow> measure_message_rate(World& world, const RunOptions& options);
/// For any number of ranks.
std::vector<RunRow> measure_collective(World& world, const RunOptions& options);
/// For ranks that don't share memory. The limit is a bare TCP stream of the tensor's size.
std::vector<RunRow> measure_wire_collective(World& world, const RunOptions& options);
std::vector<RunRow> measure_wire_push_pull(World& world, const RunOptions& options);
/// For any number of ranks that share memory. Compares weft's operations with each other rather
/// than with a limit.
std::vector<RunRow> measure_checks(World& world, const RunOptions& options);

/// Needs a GPU.
std::vector<RunRow> measure_gpu(World& world, const RunOptions& options);

std::vector<RunRow> measure_wire(World& world, const RunOptions& options);

/// Needs an RDMA device for the limit.
std::vector<RunRow> measure_rdma(World& world, const RunOptions& options);

}  // namespace weft::bench
