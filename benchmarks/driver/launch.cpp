#include "benchmarks/driver/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
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

/// The signals that ask this process to end, as a descriptor while this exists.
class EndRequests {
 public:
  EndRequests() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&wanted, number);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    requests_ = os::Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!requests_) os::throw_system_error("signalfd", "a run");
  }
  ~EndRequests() { restore(); }
  EndRequests(const EndRequests&) = delete;
  EndRequests& operator=(const EndRequests&) = delete;

  int get() const noexcept { return requests_.get(); }
  void restore() const noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// Ends this process by the signal that came, if one has.
  void obey() const {
    signalfd_siginfo info{};
    if (::read(requests_.get(), &info, sizeof info) != sizeof info) return;
    ::signal(static_cast<int>(info.ssi_signo), SIG_DFL);
    ::raise(static_cast<int>(info.ssi_signo));
    restore();
  }

 private:
  sigset_t before_{};
  os::Fd requests_;
};

[[noreturn]] void become(const std::vector<std::string>& words, const Catch& output,
                         const Catch& errors, pid_t parent, const EndRequests& requests) {
  requests.restore();
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

/// False at the limit, or once `requests` has a signal.
bool ended_within(const os::Fd& process, std::chrono::milliseconds limit, int requests = -1) {
  pollfd wanted[] = {{process.get(), POLLIN, 0}, {requests, POLLIN, 0}};
  ::poll(wanted, 2, static_cast<int>(limit.count()));
  return wanted[0].revents != 0;
}

}  // namespace

Outcome launch(const std::vector<std::string>& words, std::chrono::seconds limit) {
  const Catch output;
  const Catch errors;
  const pid_t parent = ::getpid();
  const EndRequests requests;
  const pid_t child = ::fork();
  if (child < 0) os::throw_system_error("fork", words.front());
  if (child == 0) become(words, output, errors, parent, requests);

  const os::Fd process = os::pidfd_open(child);
  if (!ended_within(process, limit, requests.get())) {
    requests.obey();         // at once: the kernel then sends the program its signal
    ::kill(child, SIGTERM);  // a launcher then ends its ranks
    if (!ended_within(process, std::chrono::seconds(5))) ::kill(-child, SIGKILL);
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
