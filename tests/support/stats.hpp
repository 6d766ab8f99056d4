// The stats segments of ranks that are threads of this process, as tools see them.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/os/fd.hpp"
#include "base/stats/stats_view.hpp"

namespace weft::tests {

inline stats::StatsView stats_of_rank(int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // another rank's thread may have closed it
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("memfd:weft-status") == std::string::npos) continue;
    const os::Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    auto view = stats::StatsView::open(file);
    if (view.identity().rank == rank) return view;
  }
  throw std::runtime_error("rank " + std::to_string(rank) + " has no stats segment");
}

/// Number of lines of the log that say `words`.
inline int lines_with(const std::filesystem::path& log, const std::string& words) {
  std::ifstream file(log);
  int found = 0;
  for (std::string line; std::getline(file, line);)
    found += line.find(words) == std::string::npos ? 0 : 1;
  return found;
}

}  // namespace weft::tests
