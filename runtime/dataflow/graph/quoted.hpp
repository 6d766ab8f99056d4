// Strings of JSON and Graphviz.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/printable.hpp"

namespace weft::dataflow {

/// `text` as a string literal of JSON; Graphviz takes the same. A byte that is no UTF-8 becomes the
/// replacement character.
inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const char c = text.front();
    if (bytes != 1)
      result += bytes == 0 ? "\xef\xbf\xbd" : text.substr(0, bytes);
    else if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      result += c;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result + '"';
}

}  // namespace weft::dataflow
