// Recordings: a rank's stats segment, copied into a file.
#pragma once

#include <string>
#include <string_view>

#include "base/stats/stats_view.hpp"

namespace weft::stats {

inline constexpr std::string_view kRecordingEnd = ".weft-recording";
/// How the name of a stats segment begins that lies in a file from the start.
inline constexpr std::string_view kStatsFileBegin = "weft-status-";

/// What a recording says of itself.
struct RecordingAbout {
  std::string_view why{};
  int by_rank = -1;           ///< -1: a tool
  bool only_if_none = false;  ///< somebody else may have made it: then his stays
};

/// Job, rank, host and pid, as names of files have them: "3281-rank2-node1-4711".
std::string file_stem(std::string_view job, int rank, std::string_view host, int pid);

/// Writes the stats segment into `folder` as "weft-STEM.weft-recording", and returns the path. It
/// is there whole or not at all; an older one of the same rank is replaced. Takes 64 bytes for each
/// event that the ring holds, 320 for each edge, 128 for each rank, and some 20 KiB. Throws
/// Error(system).
std::string write_recording(const StatsView& stats, const std::string& folder,
                            const RecordingAbout& about);

}  // namespace weft::stats
