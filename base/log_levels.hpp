// The grammar of WEFT_LOG.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/log.hpp"

namespace weft {

/// The least level that is written, per subsystem.
using LogLevels = std::array<LogLevel, static_cast<std::size_t>(Subsystem::count_)>;

std::string_view name(LogLevel level) noexcept;

/// "level" (for all) or "level:subsystem" (for one, whatever is said of all), comma-separated; what
/// is not named stays at warn. nullopt when a word of it is unknown.
std::optional<LogLevels> parse_log_levels(std::string_view text);

}  // namespace weft
