// Log lines by level and subsystem, to stderr or WEFT_LOG_FILE. Private to weft.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

class Config;

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

/// The topic of a line; WEFT_LOG=info:path,debug:slot selects by these names.
enum class Subsystem : std::uint8_t { boot, arena, path, slot, progress, ps, tool, count_ };
std::string_view name(Subsystem subsystem) noexcept;

/// One per world, shared by its parts. Thread-safe. Lines are written whole: lines of several ranks
/// with one stderr don't interleave. Format: "weft[host:rank] level subsystem: text".
class Log {
 public:
  /// `rank`: -1 if it is not known yet.
  Log(const Config& config, std::string host, int rank);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool enabled(LogLevel level, Subsystem subsystem) const noexcept {
    return level >= levels_[static_cast<std::size_t>(subsystem)];
  }
  void write(LogLevel level, Subsystem subsystem, std::string_view text) noexcept;

  template <typename... Args>
  void info(Subsystem s, fmt::format_string<Args...> format, Args&&... args) noexcept {
    line(LogLevel::info, s, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(Subsystem s, fmt::format_string<Args...> format, Args&&... args) noexcept {
    line(LogLevel::warn, s, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(Subsystem s, fmt::format_string<Args...> format, Args&&... args) noexcept {
    line(LogLevel::error, s, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void debug(Subsystem s, fmt::format_string<Args...> format, Args&&... args) noexcept {
    line(LogLevel::debug, s, format, std::forward<Args>(args)...);
  }

 private:
  template <typename... Args>
  void line(LogLevel level, Subsystem s, fmt::format_string<Args...> format,
            Args&&... args) noexcept {
    if (!enabled(level, s)) return;
    try {
      write(level, s, fmt::format(format, std::forward<Args>(args)...));
    } catch (...) {
      write(level, s, "(a log line was lost: no memory)");
    }
  }

  LogLevel levels_[static_cast<std::size_t>(Subsystem::count_)];
  struct Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace weft
