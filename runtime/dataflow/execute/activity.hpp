// Counts and waiting times of steps, in all and by edge.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/dataflow/execute/executor_stats.hpp"
#include "weft/executor_report.hpp"
#include "weft/graph.hpp"

namespace weft::dataflow {

/// Requires the runner's mutex.
class Activity {
 public:
  /// `shown` must outlive it.
  Activity(std::size_t edges, ExecutorStats& shown) : shown_(shown), edges_(edges) {}

  ExecutorCounters& counters() noexcept { return counters_; }
  const ExecutorCounters& counters() const noexcept { return counters_; }

  void count_probe(std::size_t edge) noexcept {
    ++counters_.probes;
    ++edges_[edge].probes;
  }
  /// The transfer was begun and has not ended.
  void begin_wait(std::size_t edge) noexcept { edges_[edge].since = Clock::now(); }
  /// The transfer has ended, perhaps without a wait.
  void end_wait(std::size_t edge) noexcept {
    OfEdge& one = edges_[edge];
    if (!one.since) return;
    one.wait += Clock::now() - *one.since;
    one.since.reset();
  }

  /// The wait for the transfer of `node`, and for `more` others.
  stats::WaitAbout awaiting(NodeId node, std::size_t edge, std::size_t more) const noexcept {
    return shown_.awaiting(node, more, edges_[edge].since);
  }

  /// A thread runs or probes the node from now on.
  void begin_node(NodeId node) { running_.push_back({node, Clock::now()}); }
  /// And no more. The longest one of a step is kept.
  void end_node(NodeId node) noexcept {
    const auto at = std::ranges::find(running_, node, &Run::node);
    keep_longest(*at);
    running_.erase(at);
  }
  /// The same for a node that has ended; `edge`: of a transfer.
  void complete_node(NodeId node, int thread, std::optional<std::size_t> edge) noexcept {
    const auto first_look = edge ? edges_[*edge].since : std::nullopt;
    shown_.ended(node, thread,
                 first_look.value_or(std::ranges::find(running_, node, &Run::node)->since));
    end_node(node);
  }
  void begin_step(std::uint64_t step) noexcept {
    longest_ = {};
    shown_.begin_step(step);
  }
  void end_step(bool is_ok) noexcept {
    if (is_ok) ++counters_.steps;
    shown_.end_step(is_ok);
  }
  struct Longest {
    NodeId node = -1;  ///< -1: there was none
    std::chrono::nanoseconds took{};
  };
  /// In this step; nodes that still run count too.
  Longest longest() noexcept {
    for (const Run& run : running_) keep_longest(run);
    return longest_;
  }

  std::uint64_t probes(std::size_t edge) const noexcept { return edges_[edge].probes; }
  std::chrono::nanoseconds wait(std::size_t edge) const noexcept { return edges_[edge].wait; }

 private:
  using Clock = std::chrono::steady_clock;
  struct OfEdge {
    std::uint64_t probes = 0;
    std::chrono::nanoseconds wait{};
    std::optional<Clock::time_point> since{};
  };

  struct Run {
    NodeId node = -1;
    Clock::time_point since;
  };
  void keep_longest(const Run& run) noexcept {
    const std::chrono::nanoseconds took = Clock::now() - run.since;
    if (took > longest_.took) longest_ = {run.node, took};
  }

  ExecutorStats& shown_;
  ExecutorCounters counters_;
  std::vector<Run> running_;
  Longest longest_;
  std::vector<OfEdge> edges_;
};

}  // namespace weft::dataflow
