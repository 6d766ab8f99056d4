// Operations that have failed without the application's notice, in a rank's stats segment.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/stats/stats_segment.hpp"
#include "weft/error.hpp"

namespace weft::stats {

struct FailureAbout {
  Operation operation = Operation::none;
  int peer = -1;
  Code code = Code::ok;
  std::uint64_t slot = 0;
  std::uint64_t sequence = 0;
  std::string_view text{};
};

/// A place for one failure at a time. If no entry is free, the failure is not shown.
/// Thread-safety: the caller's.
class FailureRow {
 public:
  explicit FailureRow(std::shared_ptr<StatsSegment> stats) noexcept : stats_(std::move(stats)) {}
  FailureRow(const FailureRow&) = delete;
  FailureRow& operator=(const FailureRow&) = delete;
  ~FailureRow() { clear(); }

  /// Shows the failure in place of the one before, whose time stays.
  void show(const FailureAbout& about) noexcept;
  void clear() noexcept;

 private:
  const std::shared_ptr<StatsSegment> stats_;
  FailureEntry* entry_ = nullptr;
};

}  // namespace weft::stats
