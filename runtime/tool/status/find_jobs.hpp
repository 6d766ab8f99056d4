// Finds the jobs on this host by their stats segments.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/stats/stats_view.hpp"
#include "base/stats/table_stats.hpp"

namespace weft::tool {

/// A rank, found by its own stats segment.
struct FoundRank {
  stats::StatsView stats;
  uid_t user = 0;
  int pid = 0;  ///< in this process's pid namespace; 0: dead, and a peer keeps its stats segment
  bool stopped = false;                    ///< by a signal or a debugger
  std::vector<stats::TableView> tables{};  ///< tables of parameter servers
};

struct FoundJob {
  std::string id;  ///< the launcher's name for the job, or a made-up one: "pid-4711"
  uid_t user = 0;  ///< owner of the processes and stats segments
  int size = 0;
  std::vector<FoundRank> ranks;  ///< by rank; the newest stats segment of each
};

struct Search {
  std::vector<FoundJob> jobs;
  int hidden = 0;   ///< processes that this user may not inspect
  int unknown = 0;  ///< stats segments of another version of weft
};

/// Searches the descriptors of every process, including those of other containers of the host. The
/// files of a user's processes count only for jobs of that user. They are copied, checked and
/// limited in size, and no process can block the search.
Search find_jobs();

/// Returns the job whose id is `wanted`, or the one that has a rank with that pid, or whose ranks
/// the process with that pid has started, as mpirun does. Throws Error(bad_argument), which lists
/// the jobs.
const FoundJob& choose_job(const Search& search, const std::string& wanted);
/// The message for a user who can see no job.
std::string no_job_text(const Search& search);

}  // namespace weft::tool
