// The memory in use in a rank's arenas, to compare before and after.
#pragma once

#include <string>

#include "weft/world.hpp"

namespace weft::conformance {

/// Paths that nothing has used yet.
inline std::size_t idle_paths(const Report& report) {
  std::size_t count = 0;
  for (const PathReport& path : report.paths)
    if (path.verdicts.front().reason.find("on first use") != std::string::npos) ++count;
  return count;
}

/// Rings that messages go through.
inline std::size_t rings(const Report& report) {
  std::size_t count = 0;
  for (const EdgeReport& edge : report.edges)
    if (edge.slot == "messages") ++count;
  return count;
}

/// Empty if `now` equals `before`: no more memory is used or in quarantine, and freed memory has
/// merged again. Otherwise the differences.
inline std::string left_behind(const Report& before, const Report& now) {
  std::string left;
  // A path or a ring that was made meanwhile keeps its memory for the rest of the job.
  if (idle_paths(now) != idle_paths(before) || rings(now) != rings(before)) return left;
  for (std::size_t i = 0; i < before.arenas.size(); ++i) {
    const ArenaReport& was = before.arenas[i];
    const ArenaReport& is = now.arenas[i];
    const auto tell = [&](const char* what, std::uint64_t a, std::uint64_t b) {
      left += is.sort + " arena: " + std::to_string(b) + ' ' + what + ", before " +
              std::to_string(a) + "; ";
    };
    // Less memory in use than before is no leak of the body: memory of an earlier body was still
    // being released.
    if (is.used_bytes > was.used_bytes) tell("bytes used", was.used_bytes, is.used_bytes);
    if (is.quarantined_bytes > was.quarantined_bytes)
      tell("bytes in quarantine", was.quarantined_bytes, is.quarantined_bytes);
    // Chunks stay; in a chunk that was there before, the free ranges must have merged again.
    if (was.chunks == is.chunks && is.largest_free_bytes < was.largest_free_bytes)
      tell("bytes in the largest free range", was.largest_free_bytes, is.largest_free_bytes);
  }
  return left;
}

}  // namespace weft::conformance
