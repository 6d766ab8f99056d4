// Counts and waiting times of steps, in all and by edge.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "weft/executor_report.hpp"

namespace weft::dataflow {

/// Requires the runner's mutex.
class Activity {
 public:
  explicit Activity(std::size_t edges) : edges_(edges) {}

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

  std::uint64_t probes(std::size_t edge) const noexcept { return edges_[edge].probes; }
  std::chrono::nanoseconds wait(std::size_t edge) const noexcept { return edges_[edge].wait; }

 private:
  using Clock = std::chrono::steady_clock;
  struct OfEdge {
    std::uint64_t probes = 0;
    std::chrono::nanoseconds wait{};
    std::optional<Clock::time_point> since{};
  };

  ExecutorCounters counters_;
  std::vector<OfEdge> edges_;
};

}  // namespace weft::dataflow
