// Recordings as one trace that Chrome's about:tracing and Perfetto show.
#pragma once

#include <ostream>
#include <span>

#include "runtime/tool/trace/recordings.hpp"

namespace weft::tool {

/// A process for each rank, in it a track for each slot and one for everything else, arrows from
/// puts to arrivals. Times are microseconds since the first event, by the clock of the first
/// recording's host.
void write_chrome_trace(std::ostream& out, std::span<const LoadedRecording> recordings,
                        const std::map<std::string, Alignment>& clocks);

}  // namespace weft::tool
