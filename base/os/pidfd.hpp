// A descriptor that stands for a process, whatever becomes of its number.
#pragma once

#include <sys/types.h>

#include "base/os/fd.hpp"

namespace weft::os {

/// Readable (poll, epoll) once the process has ended. Throws Error(system): the process is gone
/// already, or descriptors are used up.
Fd pidfd_open(pid_t pid);

/// SIGKILL, to that very process and none that took its number. False when it may not be sent; true
/// also when the process is gone.
bool pidfd_kill(const Fd& process) noexcept;

}  // namespace weft::os
