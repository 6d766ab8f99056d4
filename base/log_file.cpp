#include "base/log_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/config.hpp"
#include "base/fail.hpp"
#include "base/os/named_file.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

[[noreturn]] void refuse(std::string_view pattern, const std::string& why) {
  const auto& spec = setting_table()[static_cast<std::size_t>(Setting::log_file)];
  throw_error(Code::bad_config, "log",
              std::string(spec.variable) + "=\"" + std::string(pattern) + "\": " + why,
              "accepted: " + std::string(spec.accepts));
}

std::string expand(std::string_view pattern, std::string_view host, int rank) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    switch (++i < pattern.size() ? pattern[i] : '\0') {
      case 'h':
        path += host;
        break;
      case 'p':
        path += std::to_string(::getpid());
        break;
      case 'r':
        path += rank_text(rank);
        break;
      case '%':
        path += '%';
        break;
      default:
        refuse(pattern, "a % without h, p, r or % after it");
    }
  }
  return path;
}

os::Fd open(std::string_view pattern, const std::filesystem::path& path) {
  try {
    return os::open_output(path, os::Output::append, "log");
  } catch (const Error& error) {
    refuse(pattern, "cannot open " + error.detail().message);
  }
}

}  // namespace

std::string rank_text(int rank) { return rank < 0 ? "-" : std::to_string(rank); }

os::Fd open_log_file(std::string_view pattern, std::string_view host, int rank) {
  if (pattern.empty()) return {};
  return open(pattern, expand(pattern, host, rank));
}

void check_log_file(std::string_view pattern, std::string_view host) {
  if (pattern.empty()) return;
  const std::filesystem::path path = expand(pattern, host, -1);
  struct stat about {};
  if (::lstat(path.c_str(), &about) == 0) return (void)open(pattern, path);
  // A folder of each rank's own can't be known here.
  const std::string_view folder = pattern.substr(0, pattern.rfind('/'));
  if (folder != pattern && (folder.find("%r") != folder.npos || folder.find("%p") != folder.npos))
    return;
  const auto parent = path.parent_path().empty() ? "." : path.parent_path();
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    refuse(pattern, "cannot open " + path.native() + ": " + os::words(errno));
}

}  // namespace weft
