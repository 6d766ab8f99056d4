// The jobs whose stats segments can be seen on this host.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/stats/stats_view.hpp"
#include "base/stats/table_stats.hpp"

namespace weft::tool {

/// A rank by its own stats segment.
struct FoundRank {
  stats::StatsView stats;
  uid_t user = 0;
  int pid = 0;  ///< as this process sees it; 0: it is gone, and a peer keeps its stats segment
  bool stopped = false;                    ///< by a signal or a debugger
  std::vector<stats::TableView> tables{};  ///< of parameter servers
};

struct FoundJob {
  std::string id;  ///< as its launcher names it, or made up: "pid-4711"
  uid_t user = 0;  ///< whose processes and stats segments these are
  int size = 0;
  std::vector<FoundRank> ranks;  ///< by rank; the newest stats segment of each
};

struct Search {
  std::vector<FoundJob> jobs;
  int hidden = 0;   ///< processes that this user may not look at
  int unknown = 0;  ///< stats segments of another version
};

/// Looks through the descriptors of every process, those of other containers of the host too. What
/// a user's processes show speaks of that user's jobs alone; it is copied, checked and bounded, and
/// nothing that it does meanwhile holds this up.
Search find_jobs();

/// Of the jobs found, the one of that id, or with a rank of that pid. Throws Error(bad_argument)
/// with what there is.
const FoundJob& choose_job(const Search& search, const std::string& wanted);
/// What to tell a user who has none to see.
std::string no_job_text(const Search& search);

}  // namespace weft::tool
