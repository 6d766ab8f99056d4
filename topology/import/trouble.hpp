// Errors about imported files, with the line at fault.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/fail.hpp"
#include "weft/error.hpp"

namespace weft::topology {

/// Throws Error(bad_argument) about `what` in `line`, counted from 1; 0: the file as a whole.
[[noreturn]] inline void refuse_file(const std::string& name, int line, std::string what,
                                     std::string hint = "fix the file, or capture it again") {
  throw_error(Code::bad_argument, "topology",
              line > 0 ? fmt::format("{}, line {}: {}", name, line, what)
                       : fmt::format("{}: {}", name, what),
              std::move(hint));
}

/// Shortens text from a file to 60 printable characters for use in a message.
inline std::string excerpt(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c != 0x7f ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace weft::topology
