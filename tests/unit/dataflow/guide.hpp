// The code blocks of docs/dataflow.md, for tests that have the same code. Needs WEFT_SOURCE_DIR.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::dataflow::guide {

inline std::string file(const std::string& name) {
  std::ifstream in(std::string(WEFT_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

/// The lines of a code block after `heading` in docs/dataflow.md: the first, or the one after `nth`
/// others.
inline std::vector<std::string> block_after(const std::string& heading, int nth = 0) {
  const std::string text = file("docs/dataflow.md");
  std::istringstream lines(text.substr(text.find(heading)));
  std::vector<std::string> block;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("    "))
      block.push_back(trimmed(line));
    else if (!block.empty() && !line.empty()) {
      if (nth-- == 0) break;
      block.clear();
    }
  }
  return block;
}

}  // namespace weft::dataflow::guide
