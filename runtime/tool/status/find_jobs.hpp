// The jobs whose boards can be seen on this host.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/board/board_view.hpp"
#include "base/board/table_board.hpp"

namespace weft::tool {

/// A rank by its own board.
struct FoundRank {
  board::BoardView board;
  uid_t user = 0;
  int pid = 0;           ///< as this process sees it; 0: it is gone, and a peer keeps its board
  bool stopped = false;  ///< by a signal or a debugger
  std::vector<board::TableView> tables{};  ///< of parameter servers
};

struct FoundJob {
  std::string id;  ///< as its launcher names it, or made up: "pid-4711"
  uid_t user = 0;  ///< whose processes and boards these are
  int size = 0;
  std::vector<FoundRank> ranks;  ///< by rank; the newest board of each
};

struct Search {
  std::vector<FoundJob> jobs;
  int hidden = 0;   ///< processes that this user may not look at
  int unknown = 0;  ///< boards of another version
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
