// The state of another process, from the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weft::os {

/// `traced`: stopped by a debugger. `unknown`: the process is gone or a zombie, or may not be
/// inspected.
enum class ProcessState : std::uint8_t { unknown, runs, stopped, traced };

ProcessState process_state(pid_t pid) noexcept;
/// Nanoseconds for which the process's first thread has run. The number grows after each SIGCONT,
/// however briefly the process runs. 0 if the kernel does not tell.
std::uint64_t time_run(pid_t pid) noexcept;

}  // namespace weft::os
