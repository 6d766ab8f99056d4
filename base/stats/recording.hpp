// Recordings: a rank's stats segment, copied into a file.
#pragma once

#include <string>
#include <string_view>

#include "base/stats/stats_view.hpp"

namespace weft::stats {

inline constexpr std::string_view kRecordingEnd = ".weft-recording";
/// Prefix of the name of a stats segment that is a file from the start.
inline constexpr std::string_view kStatsFileBegin = "weft-status-";

/// The origin of a recording.
struct RecordingAbout {
  std::string_view why{};
  int by_rank = -1;           ///< -1: a tool
  bool only_if_none = false;  ///< true: keep an existing recording, which another process made
};

/// Job, rank, host and PID for use in file names: "3281-rank2-node1-4711".
std::string file_stem(std::string_view job, int rank, std::string_view host, int pid);

/// Writes the stats segment into `folder` as "weft-STEM.weft-recording" and returns the path. The
/// file appears complete or not at all; it replaces an older one of the same rank. Its size is 64
/// bytes per event in the ring, 384 per edge, 128 per rank and per named node, and about 20 KiB.
/// Throws Error(system).
std::string write_recording(const StatsView& stats, const std::string& folder,
                            const RecordingAbout& about);

}  // namespace weft::stats
