// Strings of JSON and Graphviz.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace weft::dataflow {

/// `text` as a string literal of JSON; Graphviz takes the same.
inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

}  // namespace weft::dataflow
