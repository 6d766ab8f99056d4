#include "tests/faults/deadlines/headers.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <stdexcept>

namespace weft::tests {
namespace {

std::string without_comments(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("can't read " + file.string());
  std::string text;
  for (std::string line; std::getline(in, line);) text += line.substr(0, line.find("//")) + "\n";
  return text;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string word_before(const std::string& text, std::size_t end) {
  std::size_t first = end;
  while (first > 0 && is_word(text[first - 1])) --first;
  return text.substr(first, end - first);
}

/// The last class or struct that begins before `position`; `otherwise` if there is none.
std::string scope_at(const std::string& text, std::size_t position, const std::string& otherwise) {
  static const std::regex begins(
      R"((?:class|struct)\s+(?:\[\[\w+\]\]\s+)?(?:WEFT_API\s+)?(\w+)[^;{}()]*\{)");
  std::string scope = otherwise;
  const auto last = text.begin() + static_cast<std::ptrdiff_t>(position);
  for (std::sregex_iterator match(text.begin(), last, begins), end; match != end; ++match)
    scope = (*match)[1];
  return scope;
}

/// Whether a declaration at `position` is of a private member.
bool is_private(const std::string& text, std::size_t position) {
  const auto last = [&](const char* word) {
    const std::size_t found = text.rfind(word, position);
    return found == std::string::npos ? 0 : found;
  };
  return last("private:") > std::max({last("public:"), last("\nclass "), last("\nstruct ")});
}

/// The position of the bracket that encloses a parameter.
std::size_t opening_before(const std::string& text, std::size_t position) {
  for (int depth = 0; position-- > 0;) {
    if (text[position] == ')') ++depth;
    if (text[position] == '(' && depth-- == 0) return position;
    if (text[position] == ';') break;
  }
  return std::string::npos;
}

}  // namespace

std::set<std::string> calls_with_deadlines(const std::filesystem::path& headers) {
  std::set<std::string> calls;
  static const std::regex parameter(R"(\bDeadline\s+\w+\s*(?:=\s*\{\}\s*)?[,)])");
  for (const auto& entry : std::filesystem::directory_iterator(headers)) {
    const auto& file = entry.path();
    if (file.extension() != ".hpp" || file.filename() == "deadline.hpp") continue;
    const std::string text = without_comments(file);
    std::map<std::string, int> seen;
    for (std::sregex_iterator match(text.begin(), text.end(), parameter), end; match != end;
         ++match) {
      const auto at = static_cast<std::size_t>(match->position());
      const std::size_t opening = opening_before(text, at);
      if (opening == std::string::npos || is_private(text, opening)) continue;
      const std::string name =
          scope_at(text, opening, file.stem().string()) + "::" + word_before(text, opening);
      const int number = ++seen[name];
      calls.insert(number == 1 ? name : name + "#" + std::to_string(number));
    }
  }
  return calls;
}

}  // namespace weft::tests
