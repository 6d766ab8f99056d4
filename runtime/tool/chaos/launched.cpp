#include "runtime/tool/chaos/launched.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/os/pidfd.hpp"
#include "base/os/system_error.hpp"
#include "runtime/tool/chaos/job_ranks.hpp"

namespace weft::tool {
namespace {

std::atomic<pid_t> g_child{0};

void forward(int number) {
  if (const pid_t child = g_child.load(); child > 0) ::kill(child, number);
}

void forward_signals() {
  struct sigaction action {};
  action.sa_handler = forward;
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

[[noreturn]] void become(std::vector<std::string>& command, int report) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Launched::Launched(std::vector<std::string> command, const std::string& mark) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) os::throw_system_error("pipe", "");
  const os::Fd heard(ends[0]);
  os::Fd report(ends[1]);
  ::setenv(kMark, mark.c_str(), 1);
  pid_ = ::fork();
  if (pid_ < 0) os::throw_system_error("fork", command.front());
  if (pid_ == 0) become(command, report.get());
  report = {};
  int error = 0;
  if (::read(heard.get(), &error, sizeof error) > 0) {
    ::waitpid(pid_, nullptr, 0);
    os::throw_system_error("starting", command.front(), error);
  }
  pidfd_ = os::pidfd_open(pid_);
  g_child.store(pid_);
  forward_signals();
}

Launched::~Launched() {
  if (!status_) {
    ::kill(pid_, SIGTERM);
    (void)reap(true);
  }
  g_child.store(0);
}

std::optional<int> Launched::reap(bool block) {
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  while (ended < 0 && errno == EINTR);
  if (ended == pid_) status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

std::optional<int> Launched::wait_until(std::chrono::steady_clock::time_point until) {
  if (status_) return status_;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - std::chrono::steady_clock::now());
  pollfd ended{pidfd_.get(), POLLIN, 0};
  const auto most = std::clamp<long long>(left.count() + 1, 0, 60'000);
  if (::poll(&ended, 1, static_cast<int>(most)) <= 0) return std::nullopt;
  return reap(false);
}

}  // namespace weft::tool
