// The programs that are measured, and the command lines that start their ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/run_protocol.hpp"

namespace weft::bench {

struct Program {
  std::string name;
  std::vector<std::string> launcher;  ///< its path, and the flags that do not depend on the run
  std::string executable;
  bool has_threads = false;  ///< that move data beside the one that calls: a core would be too few
  /// Replaces the one launch for programs that need several for a row.
  std::vector<RunRow> (*measure)(const RunOptions& options) = nullptr;
};

/// The number of processors that this process, and so its runs, may use.
unsigned processors();

/// True if ranks on one host need not take turns.
bool has_core_per_rank(int ranks);

/// True for the programs of this build and of the other build of weft.
bool is_weft(const Program& program);

/// Ranks of a run, and where they are.
struct Ranks {
  int count = 2;
  bool pinned = false;   ///< each to a core of its own
  bool crowded = false;  ///< they outnumber the processors
};

/// The words that start a run; `rest` are the executable's.
std::vector<std::string> command(const Program& program, const Ranks& ranks,
                                 const std::vector<std::string>& rest);

/// This build's. Throws std::runtime_error if there is no launcher.
Program weft_program();

/// Empty, with a line on stderr, if the peer was not built or has no launcher.
std::optional<Program> peer_program(const std::string& name);

}  // namespace weft::bench
