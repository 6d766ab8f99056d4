// What the kernel says of another process.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weft::os {

/// `traced`: a debugger holds it. `unknown`: it is gone, or not ours to see.
enum class ProcessState : std::uint8_t { unknown, runs, stopped, traced };

ProcessState process_state(pid_t pid) noexcept;

}  // namespace weft::os
