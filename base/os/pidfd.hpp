// Descriptors of processes, which stay correct when a PID is reused.
#pragma once

#include <sys/types.h>

#include "base/os/fd.hpp"

namespace weft::os {

/// Opens a descriptor that becomes readable (poll, epoll) once the process has ended. Throws
/// Error(system): the process is already gone, or descriptors are used up.
Fd pidfd_open(pid_t pid);

/// Sends SIGKILL to that very process, never to another with the same PID. False if it is not
/// permitted; true also if the process is already gone.
bool pidfd_kill(const Fd& process) noexcept;

}  // namespace weft::os
