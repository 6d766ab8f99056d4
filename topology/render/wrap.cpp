#include "topology/render/wrap.hpp"

#include <algorithm>

#include "topology/render/paint.hpp"

namespace weft::topology::render {

std::string painted(const Cell& cell, const TextStyle& style) {
  return paint(cell.colour, cell.text, style.colour && !cell.colour.empty());
}

std::string wrapped(const std::vector<Cell>& words, std::size_t at, std::size_t indent,
                    const TextStyle& style) {
  std::string text;
  for (const Cell& word : words) {
    const bool first = &word == &words.front();
    if (!first && style.width > 0 && at + 1 + word.text.size() > style.width) {
      text += '\n' + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      text += ' ';
      ++at;
    }
    text += painted(word, style);
    at += word.text.size();
  }
  return text;
}

std::string wrapped_line(std::string_view line, const TextStyle& style, std::string_view colour) {
  constexpr std::size_t kIndent = 6;
  if (style.width == 0 || line.size() <= style.width)
    return painted({std::string(line), colour}, style) + '\n';
  std::vector<Cell> words;
  for (std::size_t from = 0; from <= line.size();) {
    const auto to = std::min(line.find(' ', from), line.size());
    words.push_back({std::string(line.substr(from, to - from)), colour});
    from = to + 1;
  }
  return wrapped(words, 0, kIndent, style) + '\n';
}

}  // namespace weft::topology::render
