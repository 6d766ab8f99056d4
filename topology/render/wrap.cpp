#include "topology/render/wrap.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

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

namespace {

/// Columns on a terminal: an ANSI escape has none, a character of several bytes has one.
std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  bool escape = false;
  for (const char byte : text) {
    if (byte == '\033') escape = true;
    if (!escape && (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U) ++columns;
    if (byte == 'm') escape = false;
  }
  return columns;
}

/// The strokes and blanks that a line begins with, as its next line has them.
std::string going_on(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kStrokes[] = {
      {" ", " "}, {"│", "│"}, {"├", "│"}, {"└", " "}, {"─", " "}};
  std::string start;
  for (;;) {
    const auto stroke = std::ranges::find_if(
        kStrokes, [&](const auto& known) { return line.starts_with(known.first); });
    if (stroke == std::end(kStrokes)) return start;
    start += stroke->second;
    line.remove_prefix(stroke->first.size());
  }
}

std::string broken(std::string_view line, std::size_t width) {
  const std::string next = going_on(line) + "      ";
  std::string text;
  std::size_t at = 0;
  bool is_start = true;
  for (std::size_t from = 0; from <= line.size();) {
    const auto begin = std::min(line.find_first_not_of(' ', from), line.size());
    const auto to = std::min(line.find(' ', begin), line.size());
    const auto word = line.substr(begin, to - begin);
    const std::size_t blanks = begin - from + (from == 0 ? 0 : 1);
    const std::size_t columns = columns_of(word);
    if (!is_start && at + blanks + columns > width) {
      text += '\n' + next;
      at = columns_of(next);
    } else {
      text += std::string(blanks, ' ');
      at += blanks;
    }
    text += word;
    at += columns;
    // The first stroke is no place for a break.
    is_start = is_start && going_on(word) == std::string(columns, ' ');
    from = to + 1;
  }
  return text;
}

}  // namespace

std::string wrapped_lines(std::string_view text, const TextStyle& style) {
  if (style.width == 0) return std::string(text);
  std::string all;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1);
    const auto line = text.substr(0, text[end] == '\n' ? end : end + 1);
    all += columns_of(line) > style.width ? broken(line, style.width) : std::string(line);
    all += '\n';
    text.remove_prefix(end + 1);
  }
  return all;
}

}  // namespace weft::topology::render
