// Writes recordings as one trace for Chrome's about:tracing and Perfetto.
#pragma once

#include <ostream>
#include <span>

#include "runtime/tool/trace/recordings.hpp"

namespace weft::tool {

/// Shows each rank as a process, with one track per slot and one for all other events, and arrows
/// from puts to arrivals. Times are microseconds since the first event, on the clock of the first
/// recording's host.
void write_chrome_trace(std::ostream& out, std::span<const LoadedRecording> recordings,
                        const std::map<std::string, Alignment>& clocks);

}  // namespace weft::tool
