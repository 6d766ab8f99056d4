// The error of a thread that can't be started.
#pragma once

#include <string_view>
#include <system_error>

namespace weft::os {

/// Throws Error(exhausted) for `error`, which std::thread's constructor threw. The C library
/// reports EAGAIN whether address space or processes are used up: the text tells which.
[[noreturn]] void throw_thread_shortage(std::string_view operation, const std::system_error& error);

}  // namespace weft::os
