// Errors of system calls as weft::Error.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

namespace weft::os {

/// Throws Error(system) with the operation, its subject, the system's text for `error` and
/// hint_for(error).
[[noreturn]] void throw_system_error(std::string_view operation, std::string_view subject,
                                     int error = errno);

/// The system's text for an errno value.
std::string words(int error);

/// Advice where `error` says that descriptors are used up or that a port is taken; empty for
/// other errors.
std::string hint_for(int error);

}  // namespace weft::os
