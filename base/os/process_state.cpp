#include "base/os/process_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft::os {

ProcessState process_state(pid_t pid) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return ProcessState::unknown;
  std::array<char, 256> text{};
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got <= 0) return ProcessState::unknown;
  // "PID (NAME) STATE ...", where the name may hold anything.
  const std::string_view stat(text.data(), static_cast<std::size_t>(got));
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
