// The steps of an executor, as other processes see them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/stats/executor_row.hpp"
#include "base/stats/recorder.hpp"
#include "base/stats/waits.hpp"
#include "runtime/dataflow/execute/program.hpp"
#include "weft/deadline.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// Shows steps in the stats segment and, with WEFT_RECORD=all, records nodes; at other levels a
/// node costs one comparison. Requires the runner's mutex.
class ExecutorStats {
 public:
  /// `slots`: the name of each edge's slot. This rank's ends exist.
  ExecutorStats(World& world, const std::string& name, const Plan& plan,
                const std::vector<std::string>& slots, const std::vector<Instruction>& program);

  void begin_step(std::uint64_t step) noexcept { row_.begin_step(step); }
  void end_step(bool is_ok) noexcept { row_.end_step(is_ok); }
  /// Records a node that has ended now. `since`: its start; of a transfer, its first look.
  void ended(NodeId node, int thread, Clock::time_point since) noexcept;
  /// A wait for this transfer and `more` others. `since`: its first look.
  stats::WaitAbout awaiting(NodeId node, std::size_t more,
                            std::optional<Clock::time_point> since) const noexcept;

 private:
  const Plan& plan_;
  const std::vector<Instruction>& program_;
  stats::Recorder& recorder_;
  stats::ExecutorRow row_;
  std::vector<std::uint64_t> slots_;  ///< by edge: number in the records; 0: not shown
};

}  // namespace weft::dataflow
