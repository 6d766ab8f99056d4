#include "base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/config.hpp"
#include "base/log_file.hpp"
#include "base/log_levels.hpp"
#include "base/os/fd.hpp"
#include "base/os/system_error.hpp"
#include "base/printable.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

/// The format "weft[host:rank] level subsystem: text" in spdlog's notation.
std::unique_ptr<spdlog::formatter> line_format(const std::string& host, int rank) {
  std::string who;
  for (const char c : host) who.append(c == '%' ? 2 : 1, c);
  return std::make_unique<spdlog::pattern_formatter>(
      fmt::format("weft[{}:{}] %l %n: %v", who, rank_text(rank)));
}

}  // namespace

/// Writes each line by one system call. spdlog's own sinks use buffered streams, which may split a
/// long line.
struct Log::Sink final : spdlog::sinks::base_sink<std::mutex> {
  Sink(os::Fd opened, std::string path_pattern)
      : file(std::move(opened)), pattern(std::move(path_pattern)) {}

  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (!file) return (void)write_all(STDERR_FILENO, text);
    if (write_all(file.get(), text)) return;
    const auto why = fmt::format(
        "weft: WEFT_LOG_FILE={} can't be written: {}; from here on its lines go to stderr\n",
        pattern, os::words(errno));
    file = os::Fd();
    (void)write_all(STDERR_FILENO, why);
    (void)write_all(STDERR_FILENO, text);  // stderr is the last resort
  }
  void flush_() override {}

  static bool write_all(int fd, std::string_view rest) noexcept {
    while (!rest.empty()) {
      const auto written = ::write(fd, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  os::Fd file;  ///< empty: stderr
  const std::string pattern;
};

Log::Log(const Config& config, std::string host, int rank)
    : sink_(std::make_unique<Sink>(open_log_file(config.text(Setting::log_file), host, rank),
                                   config.text(Setting::log_file))) {
  sink_->set_formatter(line_format(host, rank));
  // Config has already rejected every invalid text.
  const auto levels = parse_log_levels(config.text(Setting::log)).value();
  std::copy(levels.begin(), levels.end(), levels_);
}

Log::~Log() = default;

void Log::write(LogLevel level, Subsystem subsystem, std::string_view text) noexcept {
  if (!enabled(level, subsystem)) return;
  try {
    const auto about = name(subsystem);
    const std::string line = printable(text);
    sink_->log({{about.data(), about.size()}, level_of(level), {line.data(), line.size()}});
  } catch (...) {
    // A failed log line must not fail the caller's operation.
    return;
  }
}

}  // namespace weft
