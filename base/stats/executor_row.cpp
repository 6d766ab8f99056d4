#include "base/stats/executor_row.hpp"

#include <algorithm>

namespace weft::stats {

ExecutorRow::ExecutorRow(std::shared_ptr<StatsSegment> stats, std::string_view name,
                         std::span<const std::string> nodes)
    : stats_(std::move(stats)) {
  nodes_.reserve(nodes.size());
  const std::lock_guard lock(stats_->mutex_);
  const std::span entries(stats_->at<ExecutorEntry>(SectionIndex::executors), kExecutors);
  const auto free = std::ranges::find_if(entries, [](const ExecutorEntry& entry) {
    return entry.live.load(std::memory_order_relaxed) == 0;
  });
  if (free == entries.end()) return;
  number_ = static_cast<std::uint8_t>(free - entries.begin() + 1);
  // Release stores: a reader that sees one of these values also sees the odd generation.
  free->generation.fetch_add(1, std::memory_order_acq_rel);
  free->name.set(name);
  free->begun.store(0, std::memory_order_release);
  free->ended.store(0, std::memory_order_release);
  free->failed.store(0, std::memory_order_release);
  free->live.store(1, std::memory_order_release);
  free->generation.fetch_add(1, std::memory_order_release);
  for (const std::string& node : nodes) {
    const std::size_t at = stats_->take_node();
    if (at == stats_->nodes_taken_.size()) break;
    NodeEntry& entry = stats_->at<NodeEntry>(SectionIndex::nodes)[at];
    entry.number.store(0, std::memory_order_relaxed);  // the name's stores release it
    entry.name.set(node);
    nodes_.push_back({++stats_->last_node_number_, at});
    entry.number.store(nodes_.back().number, std::memory_order_release);
  }
}

ExecutorRow::~ExecutorRow() {
  const std::lock_guard lock(stats_->mutex_);
  for (const Named& node : nodes_) stats_->nodes_taken_[node.at] = false;
  if (number_ != 0) entry().live.store(0, std::memory_order_release);
}

ExecutorEntry& ExecutorRow::entry() noexcept {
  return stats_->at<ExecutorEntry>(SectionIndex::executors)[number_ - 1];
}

void ExecutorRow::begin_step(std::uint64_t step) noexcept {
  begun_ = step + 1;
  if (number_ != 0) entry().begun.store(begun_, std::memory_order_release);
}

void ExecutorRow::end_step(bool is_ok) noexcept {
  if (number_ == 0) return;
  if (is_ok)
    entry().ended.store(begun_, std::memory_order_release);
  else
    entry().failed.store(1, std::memory_order_release);
}

}  // namespace weft::stats
