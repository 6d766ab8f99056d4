#include "base/os/pidfd.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/os/system_error.hpp"

namespace weft::os {

// By syscall(): this glibc's <sys/pidfd.h> can't be included in C++ together with <fcntl.h>.
Fd pidfd_open(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!fd) throw_system_error("pidfd_open", "pid " + std::to_string(pid));
  return fd;
}

bool pidfd_kill(const Fd& process) noexcept {
  return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0U) == 0 ||
         errno == ESRCH;
}

}  // namespace weft::os
