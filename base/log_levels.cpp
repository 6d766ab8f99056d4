#include "base/log_levels.hpp"

#include <algorithm>
#include <span>

namespace weft {
namespace {

constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info", "warn", "error", "off"};
constexpr std::array<std::string_view, static_cast<std::size_t>(Subsystem::count_)> kSubsystems{
    "boot", "arena", "path", "slot", "progress", "ps", "tool"};

/// The index of `word` in `words`.
std::optional<std::size_t> index(std::span<const std::string_view> words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

std::string_view name(LogLevel level) noexcept { return kLevels[static_cast<std::size_t>(level)]; }

std::string_view name(Subsystem subsystem) noexcept {
  return kSubsystems[static_cast<std::size_t>(subsystem)];
}

std::optional<LogLevels> parse_log_levels(std::string_view text) {
  LogLevel common = LogLevel::warn;
  std::array<std::optional<LogLevel>, kSubsystems.size()> own;
  for (bool is_last = false; !is_last;) {
    const auto comma = text.find(',');
    is_last = comma == text.npos;
    const auto item = text.substr(0, comma);
    if (!is_last) text.remove_prefix(comma + 1);

    const auto colon = item.find(':');
    const auto level = index(kLevels, item.substr(0, colon));
    if (!level) return std::nullopt;
    if (colon == item.npos) {
      common = static_cast<LogLevel>(*level);
      continue;
    }
    const auto subsystem = index(kSubsystems, item.substr(colon + 1));
    if (!subsystem) return std::nullopt;
    own[*subsystem] = static_cast<LogLevel>(*level);
  }
  LogLevels levels;
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = own[i].value_or(common);
  return levels;
}

}  // namespace weft
