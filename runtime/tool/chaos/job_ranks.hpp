// The processes of a job that this process has started.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/os/fd.hpp"

namespace weft::tool {

/// In the environment of every process of the job: whatever the launcher starts on this machine has
/// it, in whatever network namespace, and nothing else has.
inline constexpr const char* kMark = "CHAOS_OF_WEFT";

struct RankProcess {
  int pid = 0;
  os::Fd pidfd;  ///< a signal by it can't reach another process that got the same number
};

struct JobRanks {
  std::map<int, RankProcess> ranks;
  int size = 0;  ///< of the job, as its launcher says; 0: it does not
  bool complete() const noexcept { return size > 0 && static_cast<int>(ranks.size()) >= size; }
};

/// Those that bear the mark. Of several processes that call themselves the same rank, as a shell
/// script and the program in it, the innermost.
JobRanks find_ranks(const std::string& mark);

}  // namespace weft::tool
