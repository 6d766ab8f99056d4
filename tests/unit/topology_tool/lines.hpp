// Finds parts of a text, for a test.
#pragma once

#include <sstream>
#include <string>

namespace weft::topology::render {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The line that begins with `start`.
inline std::string line_of(const std::string& text, const std::string& start) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(start)) return line;
  return "no line begins with " + start;
}

}  // namespace weft::topology::render
