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

/// A signal that ends a process.
struct EndSignal {
  int number = 0;
  std::atomic<int> untold{0};          ///< worlds that it is posted to and that have not handled it
  struct sigaction program_action {};  ///< the program's action before ours was installed
};

/// The state of one world that the signal handler uses. Never freed.
class ProcessEnd::Wakeup {
 public:
  std::atomic<int> fd{-1};                ///< an event descriptor; -1: not in use
  std::atomic<EndSignal*> told{nullptr};  ///< posted, and not handled by the world yet
};

namespace {

constexpr std::size_t kMostWorlds = 64;

std::array<EndSignal, 2> end_signals{{{SIGTERM}, {SIGINT}}};
std::atomic<pid_t> handled_process{0};  ///< a fork inherits the handler, but is not a rank

bool has_handler(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_default(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

/// Ends the process by the signal itself, so that its parent sees the cause.
void end_by(int signal) noexcept {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::kill(::getpid(), signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void done(EndSignal& signal) noexcept {
  if (signal.untold.fetch_sub(1) == 1 && is_default(signal.program_action)) end_by(signal.number);
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

  static void on_signal(int number, siginfo_t* about, void* context) {
    const int before = errno;
    bool heard = false;
    EndSignal& signal = end_signals[number == SIGTERM ? 0 : 1];
    signal.untold.fetch_add(1);  // keeps the process alive until all worlds are told
    if (::getpid() == handled_process.load())
      for (ProcessEnd::Wakeup& bell : shared().bells) {
        const int fd = bell.fd.load();
        EndSignal* none = nullptr;
        if (fd < 0 || !bell.told.compare_exchange_strong(none, &signal)) continue;
        signal.untold.fetch_add(1);
        const std::uint64_t one = 1;
        heard = ::write(fd, &one, sizeof one) == sizeof one || heard;
      }
    const struct sigaction& program = signal.program_action;
    if ((program.sa_flags & SA_SIGINFO) != 0)
      program.sa_sigaction(number, about, context);
    else if (has_handler(program))
      program.sa_handler(number);
    else if (!heard)  // a fork, or no world is left, or this is the second signal
      end_by(number);
    done(signal);
    errno = before;
  }

  static bool is_ours(const struct sigaction& action) noexcept {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_signal;
  }

  /// Requires the mutex. False if the signal is the program's own affair.
  static bool install(EndSignal& signal) {
    struct sigaction now {};
    ::sigaction(signal.number, nullptr, &now);
    if (!is_ours(now)) signal.program_action = now;
    const struct sigaction& program = signal.program_action;
    // A program with a handler for Ctrl-C, as Python is one, may go on after it.
    const bool handled = has_handler(program);
    if (signal.number == SIGTERM ? !handled && !is_default(program) : !is_default(program))
      return false;
    struct sigaction action {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO | (program.sa_flags & (SA_RESTART | SA_ONSTACK));
    if (!handled) action.sa_flags |= SA_RESTART;
    action.sa_mask = program.sa_mask;
    return ::sigaction(signal.number, &action, nullptr) == 0;
  }

  /// Requires the mutex. Null if all entries are in use or the program handles or ignores the
  /// signals.
  static ProcessEnd::Wakeup* take_bell(Shared& all, int fd) {
    const auto free = std::find_if(all.bells.begin(), all.bells.end(),
                                   [](const auto& bell) { return bell.fd.load() < 0; });
    if (free == all.bells.end()) return nullptr;
    if (all.bells_in_use == 0) {
      bool any = false;
      for (EndSignal& signal : end_signals) any = install(signal) || any;
      if (!any) return nullptr;
    }
    ++all.bells_in_use;
    free->told.store(nullptr);
    free->fd.store(fd);
    return &*free;
  }

  /// Requires the mutex.
  static void give_back(Shared& all, ProcessEnd::Wakeup& bell) {
    bell.fd.store(-1);
    if (EndSignal* const told = bell.told.exchange(nullptr)) done(*told);
    if (--all.bells_in_use != 0) return;
    for (const EndSignal& signal : end_signals) {
      struct sigaction now {};
      ::sigaction(signal.number, nullptr, &now);
      // A handler that was installed after ours may call it, so ours stays in that case.
      if (is_ours(now)) ::sigaction(signal.number, &signal.program_action, nullptr);
    }
  }
};

ProcessEnd::ProcessEnd(p2p::ProgressThread& progress, bool watch_signals, Events events)
    : progress_(progress), events_(std::move(events)) {
  auto& all = ExitHandler::shared();
  const std::lock_guard lock(all.mutex);
  handled_process.store(::getpid());
  if (!all.has_exit_handler && ::on_exit(&ExitHandler::on_exit, nullptr) == 0)
    all.has_exit_handler = true;
  if (watch_signals) {
    os::Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) os::throw_system_error("join", "eventfd");
    bell_ = ExitHandler::take_bell(all, fd.get());
    if (bell_ != nullptr) {
      progress_.watch(fd.release(), EPOLLIN, [this](std::uint32_t) {
        std::uint64_t count = 0;
        (void)!::read(bell_->fd.load(), &count, sizeof count);
        if (const EndSignal* const signal = bell_->told.load()) events_.terminated(signal->number);
        if (EndSignal* const told = bell_->told.exchange(nullptr)) done(*told);
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
