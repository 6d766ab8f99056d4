// What the kernel says of another process.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weft::os {

/// `traced`: a debugger holds it. `unknown`: it is gone, or not ours to see.
enum class ProcessState : std::uint8_t { unknown, runs, stopped, traced };

ProcessState process_state(pid_t pid) noexcept;
/// For how many nanoseconds the process' first thread has run: more after each time that it was
/// continued, however briefly. 0 where the kernel does not say.
std::uint64_t time_run(pid_t pid) noexcept;

}  // namespace weft::os
