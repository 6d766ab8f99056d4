#include "benchmarks/driver/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "base/os/fd.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/system_error.hpp"

namespace weft::bench {
namespace {

// Memory that captures a stream: unlike a pipe it never fills up, so no thread has to drain it.
class Catch {
 public:
  Catch() : memory_(::memfd_create("weft-bench", MFD_CLOEXEC)) {
    if (!memory_) os::throw_system_error("memfd_create", "a run's output");
  }
  int get() const noexcept { return memory_.get(); }

  std::string text() const {
    std::string result(static_cast<std::size_t>(::lseek(get(), 0, SEEK_END)), '\0');
    if (::pread(get(), result.data(), result.size(), 0) < 0)
      os::throw_system_error("pread", "a run's output");
    return result;
  }

 private:
  os::Fd memory_;
};

[[noreturn]] void become(const std::vector<std::string>& words, const Catch& output,
                         const Catch& errors, pid_t parent) {
  // A launcher ends its ranks at the first signal and abandons them at the second. In a process
  // group of its own it gets exactly one, however this process ends.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(errors.get(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::perror(arguments[0]);
  ::_exit(127);
}

int reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) os::throw_system_error("waitpid", "a run");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool ended_within(const os::Fd& process, std::chrono::milliseconds limit) {
  pollfd wanted{process.get(), POLLIN, 0};
  return ::poll(&wanted, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace

Outcome launch(const std::vector<std::string>& words, std::chrono::seconds limit) {
  const Catch output;
  const Catch errors;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) os::throw_system_error("fork", words.front());
  if (child == 0) become(words, output, errors, parent);

  const os::Fd process = os::pidfd_open(child);
  if (!ended_within(process, limit)) {
    ::kill(child, SIGTERM);  // a launcher then ends its ranks
    if (!ended_within(process, std::chrono::seconds(5))) ::kill(child, SIGKILL);
    reap(child);
    throw std::runtime_error(fmt::format("{} did not end within {} s and was stopped; it said: {}",
                                         words.front(), limit.count(), errors.text()));
  }
  const int exit_code = reap(child);
  return {exit_code, output.text(), errors.text()};
}

std::optional<std::string> find_program(const std::vector<std::string>& names) {
  const char* path = std::getenv("PATH");
  for (const std::string& name : names) {
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      const auto file = std::filesystem::path(folder) / name;
      if (::access(file.c_str(), X_OK) == 0) return file.string();
    }
  }
  return std::nullopt;
}

}  // namespace weft::bench
