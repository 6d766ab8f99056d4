// Finds the processes of a job that this process has started.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/os/fd.hpp"

namespace weft::tool {

/// Environment variable of every process of the job. All processes that the launcher starts on this
/// machine inherit it, in any network namespace; no other process has it.
inline constexpr const char* kMark = "CHAOS_OF_WEFT";

struct RankProcess {
  int pid = 0;
  os::Fd pidfd;  ///< signals sent through it never reach a later process with the same pid
};

struct JobRanks {
  std::map<int, RankProcess> ranks;
  int size = 0;  ///< of the job, by its launcher's environment; 0: not known
  bool complete() const noexcept { return size > 0 && static_cast<int>(ranks.size()) >= size; }
};

/// Finds the ranks whose environment has `mark`. If several processes claim the same rank, such as
/// a shell script and the program it runs, the innermost counts.
JobRanks find_ranks(const std::string& mark);

}  // namespace weft::tool
