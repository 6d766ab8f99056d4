// A rank of a measured weft run.
#pragma once

#include <vector>

#include "benchmarks/harness/run_protocol.hpp"
#include "weft/world.hpp"

namespace weft::bench {

/// Joins the job, runs the benchmark and, as rank 0, prints the rows. Returns the exit code.
int work(const RunOptions& options);

/// Each is run by every rank; the rows are rank 0's. They throw weft::Error, and with -c
/// std::runtime_error when data is not what was sent.
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
/// The two ranks are workers and shards at once.
std::vector<RunRow> measure_replay(World& world, const RunOptions& options);
/// Takes about 3 GiB: ten million rows of weft's and of the limit's.
std::vector<RunRow> measure_rows(World& world, const RunOptions& options);
std::vector<RunRow> measure_transfer(World& world, const RunOptions& options);
std::vector<RunRow> measure_send_recv(World& world, const RunOptions& options);
std::vector<RunRow> measure_message_rate(World& world, const RunOptions& options);
/// Of any number of ranks.
std::vector<RunRow> measure_collective(World& world, const RunOptions& options);
/// Where they don't share memory. The limit is a bare TCP stream of the tensor's size.
std::vector<RunRow> measure_wire_collective(World& world, const RunOptions& options);
std::vector<RunRow> measure_wire_push_pull(World& world, const RunOptions& options);
/// Of any number of ranks that share memory. In place of a limit stands what weft is checked
/// against.
std::vector<RunRow> measure_checks(World& world, const RunOptions& options);

std::vector<RunRow> measure_wire(World& world, const RunOptions& options);

/// Needs an RDMA device, for the limit.
std::vector<RunRow> measure_rdma(World& world, const RunOptions& options);

}  // namespace weft::bench
