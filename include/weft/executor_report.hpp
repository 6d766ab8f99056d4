// Reports of an executor: counts of its steps, and the cost of each edge.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/api.hpp"
#include "weft/partition.hpp"
#include "weft/report.hpp"
#include "weft/tracing.hpp"

namespace weft::dataflow {

/// Counts of an executor so far.
struct ExecutorCounters {
  std::uint64_t steps = 0;
  std::uint64_t nodes = 0;   ///< that ended
  std::uint64_t probes = 0;  ///< of a transfer, by a thread that had other nodes to run
  std::uint64_t sleeps = 0;  ///< waits of a thread for the network, with no node to run
};

/// One end of an edge, as its rank sees it.
struct EdgeActivity {
  Edge edge;               ///< as planned: kind, credits, the reasons for both
  Role role = Role::puts;  ///< puts or receives; of a viewed edge publishes or views
  std::string fabric;      ///< for example "shm"
  /// Costs of this end. Edges of one published slot each show its transfers. By EdgeWay::rendezvous
  /// transfers and bytes_moved alone; World::report() has the rest, for all edges of two ranks.
  TransferCounters counters;
  std::uint64_t probes = 0;         ///< of this end, part of ExecutorCounters::probes
  std::chrono::nanoseconds wait{};  ///< from the first look that found it unfinished to its end
};

/// The steps of an executor so far, as Executor::report() tells them.
struct WEFT_API ExecutorReport {
  int rank = -1;
  ExecutorCounters counters;
  std::vector<EdgeActivity> edges;  ///< those of this rank, in the plan's order
  /// Sites of kernels that allocate themselves, and of outputs with SentMemory::traced. `sends`
  /// counts all tensors sent, `copies` those from memory that is not registered.
  TracingReport sites{};

  /// One line per edge, one of the rank, and the sites' text if there are any.
  std::string text() const;
  /// {"version": 1, "rank", "steps", "nodes", "probes", "sleeps", "edges": [{"edge", "from", "to",
  /// "role", "kind", "why", "credits", "why_credits", "bytes", "fabric", "transfers",
  /// "bytes_moved", "bytes_copied", "work_requests", "credit_writes", "control_messages",
  /// "registrations", "probes", "wait_ns"}], "tracing": as TracingReport::json()}
  std::string json() const;
};

/// The plan for Graphviz, as Plan::dot(), with what each edge has cost: transfers, bytes moved, and
/// the time that sender and receiver have waited. `reports`: those of any ranks that run the plan,
/// at most one of each; an edge whose ends none of them has is drawn as planned.
WEFT_API std::string dot(const Plan& plan, std::span<const ExecutorReport> reports);

}  // namespace weft::dataflow
