// What the operating system refused, as weft's own error.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

namespace weft::os {

/// Throws Error(system): the call, what it was asked for, and the system's words for `error`.
[[noreturn]] void throw_system_error(std::string_view operation, std::string_view subject,
                                     int error = errno);

/// The system's words for an errno value.
std::string words(int error);

}  // namespace weft::os
