#include "runtime/health/process_end.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/os/fd.hpp"
#include "base/os/system_error.hpp"

namespace weft::detail {

/// The state of one world that the signal handler uses. Never freed.
class ProcessEnd::Wakeup {
 public:
  std::atomic<int> fd{-1};        ///< an event descriptor; -1: not in use
  std::atomic<bool> told{false};  ///< a signal is posted that the world has not handled yet
};

namespace {

constexpr std::size_t kMostWorlds = 64;

std::atomic<int> untold{0};             ///< worlds whose signal is posted and not handled yet
std::atomic<pid_t> handled_process{0};  ///< a fork inherits the handler, but is not a rank
struct sigaction program_action {};     ///< the program's action before ours was installed

bool is_default(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

/// Ends the process by the signal itself, so that its parent sees the cause.
void end_by_sigterm() noexcept {
  ::signal(SIGTERM, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::kill(::getpid(), SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void done() noexcept {
  if (untold.fetch_sub(1) == 1 && is_default(program_action)) end_by_sigterm();
}

}  // namespace

struct ExitHandler {
  /// Never destroyed, because exit() may still need it.
  struct Shared {
    std::mutex mutex;
    std::vector<ProcessEnd*> worlds;
    std::array<ProcessEnd::Wakeup, kMostWorlds> bells;
    int bells_in_use = 0;
    bool has_exit_handler = false;
  };
  static Shared& shared() {
    static auto* const all = new Shared;
    return *all;
  }

  static void on_exit(int status, void*) {
    Shared& all = shared();
    if (::getpid() != handled_process.load()) return;
    const std::lock_guard lock(all.mutex);
    for (const ProcessEnd* world : all.worlds) world->events_.exits(status);
  }

  static void on_sigterm(int signal, siginfo_t* about, void* context) {
    const int before = errno;
    bool heard = false;
    untold.fetch_add(1);  // keeps the process alive until all worlds are told
    if (::getpid() == handled_process.load())
      for (ProcessEnd::Wakeup& bell : shared().bells) {
        const int fd = bell.fd.load();
        if (fd < 0 || bell.told.exchange(true)) continue;
        untold.fetch_add(1);
        const std::uint64_t one = 1;
        heard = ::write(fd, &one, sizeof one) == sizeof one || heard;
      }
    if ((program_action.sa_flags & SA_SIGINFO) != 0)
      program_action.sa_sigaction(signal, about, context);
    else if (program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN)
      program_action.sa_handler(signal);
    else if (!heard)  // a fork, or no world is left, or this is the second signal
      end_by_sigterm();
    done();
    errno = before;
  }

  /// Requires the mutex. Null if all entries are in use or the program ignores SIGTERM.
  static ProcessEnd::Wakeup* take_bell(Shared& all, int fd) {
    const auto free = std::find_if(all.bells.begin(), all.bells.end(),
                                   [](const auto& bell) { return bell.fd.load() < 0; });
    if (free == all.bells.end()) return nullptr;
    if (all.bells_in_use == 0) {
      struct sigaction action {};
      struct sigaction now {};
      ::sigaction(SIGTERM, nullptr, &now);
      if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != &on_sigterm) program_action = now;
      const bool ignored =
          (program_action.sa_flags & SA_SIGINFO) == 0 && program_action.sa_handler == SIG_IGN;
      if (ignored) return nullptr;
      action.sa_sigaction = &on_sigterm;
      action.sa_flags = SA_SIGINFO | (program_action.sa_flags & (SA_RESTART | SA_ONSTACK));
      if (is_default(program_action)) action.sa_flags |= SA_RESTART;
      action.sa_mask = program_action.sa_mask;
      if (::sigaction(SIGTERM, &action, nullptr) != 0) return nullptr;
    }
    ++all.bells_in_use;
    free->told.store(false);
    free->fd.store(fd);
    return &*free;
  }

  /// Requires the mutex.
  static void give_back(Shared& all, ProcessEnd::Wakeup& bell) {
    bell.fd.store(-1);
    if (bell.told.exchange(false)) done();
    if (--all.bells_in_use != 0) return;
    struct sigaction now {};
    ::sigaction(SIGTERM, nullptr, &now);
    // A handler that was installed after ours may call it, so ours stays in that case.
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_sigterm)
      ::sigaction(SIGTERM, &program_action, nullptr);
  }
};

ProcessEnd::ProcessEnd(p2p::ProgressThread& progress, bool watch_sigterm, Events events)
    : progress_(progress), events_(std::move(events)) {
  auto& all = ExitHandler::shared();
  const std::lock_guard lock(all.mutex);
  handled_process.store(::getpid());
  if (!all.has_exit_handler && ::on_exit(&ExitHandler::on_exit, nullptr) == 0)
    all.has_exit_handler = true;
  if (watch_sigterm) {
    os::Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) os::throw_system_error("join", "eventfd");
    bell_ = ExitHandler::take_bell(all, fd.get());
    if (bell_ != nullptr) {
      progress_.watch(fd.release(), EPOLLIN, [this](std::uint32_t) {
        std::uint64_t count = 0;
        (void)!::read(bell_->fd.load(), &count, sizeof count);
        events_.terminated();
        if (bell_->told.exchange(false)) done();
      });
    }
  }
  all.worlds.push_back(this);
}

ProcessEnd::~ProcessEnd() {
  auto& all = ExitHandler::shared();
  const std::lock_guard lock(all.mutex);
  std::erase(all.worlds, this);
  if (bell_ == nullptr) return;
  const os::Fd fd(bell_->fd.load());
  progress_.forget(fd.get());
  ExitHandler::give_back(all, *bell_);
}

}  // namespace weft::detail
