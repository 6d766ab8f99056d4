// An executor of a graph in the stats segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/stats/stats_segment.hpp"

namespace weft::stats {

/// An executor's entry, and those of its nodes, returned on destruction. Those beyond the free
/// entries are not shown. Thread-safety: one thread at a time; readers of other processes at any
/// time.
class ExecutorRow {
 public:
  ExecutorRow(std::shared_ptr<StatsSegment> stats, std::string_view name,
              std::span<const std::string> nodes);
  ExecutorRow(const ExecutorRow&) = delete;
  ExecutorRow& operator=(const ExecutorRow&) = delete;
  ~ExecutorRow();

  void begin_step(std::uint64_t step) noexcept;
  void end_step(bool is_ok) noexcept;
  /// Number of the step that runs, or ran last.
  std::uint64_t step() const noexcept { return begun_ - 1; }
  /// Number of its entry, from 1; 0: it has none.
  std::uint8_t number() const noexcept { return number_; }
  /// The node's number in the records; 0: it has none.
  std::uint64_t node(std::size_t i) const noexcept {
    return i < nodes_.size() ? nodes_[i].number : 0;
  }

 private:
  ExecutorEntry& entry() noexcept;
  struct Named {
    std::uint64_t number;
    std::size_t at;  ///< index of the entry
  };
  std::shared_ptr<StatsSegment> stats_;
  std::uint64_t begun_ = 1;  ///< 1 + the step
  std::uint8_t number_ = 0;
  std::vector<Named> nodes_;
};

}  // namespace weft::stats
