// The grammar of WEFT_LOG.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/log.hpp"

namespace weft {

/// The lowest level that is written, per subsystem.
using LogLevels = std::array<LogLevel, static_cast<std::size_t>(Subsystem::count_)>;

std::string_view name(LogLevel level) noexcept;

/// Parses a comma-separated list of "level" (for all subsystems) and "level:subsystem" (for one,
/// which takes precedence). Without "level" the others stay at warn. nullopt for an unknown word.
std::optional<LogLevels> parse_log_levels(std::string_view text);

}  // namespace weft
