#include "base/os/process_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft::os {

namespace {

/// The first 256 bytes of a file of /proc/PID; empty if it can't be read.
class ProcessFile {
 public:
  ProcessFile(pid_t pid, const char* name) noexcept {
    std::array<char, 48> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/%s", pid, name);
    const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
    if (!file) return;
    const ssize_t got = ::read(file.get(), text_.data(), text_.size());
    bytes_ = got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  std::string_view text() const noexcept { return {text_.data(), bytes_}; }

 private:
  std::array<char, 256> text_{};
  std::size_t bytes_ = 0;
};

}  // namespace

std::uint64_t time_run(pid_t pid) noexcept {
  const ProcessFile file(pid, "schedstat");
  std::uint64_t nanoseconds = 0;
  std::from_chars(file.text().data(), file.text().data() + file.text().size(), nanoseconds);
  return nanoseconds;
}

ProcessState process_state(pid_t pid) noexcept {
  const ProcessFile file(pid, "stat");
  // The format is "PID (NAME) STATE ...", where NAME may contain anything, ") " included.
  const std::string_view stat = file.text();
  const auto name_end = stat.rfind(") ");
  if (name_end == stat.npos || name_end + 2 >= stat.size()) return ProcessState::unknown;
  switch (stat[name_end + 2]) {
    case 'T':
      return ProcessState::stopped;
    case 't':
      return ProcessState::traced;
    case 'Z':
    case 'X':
      return ProcessState::unknown;
    default:
      return ProcessState::runs;
  }
}

}  // namespace weft::os
