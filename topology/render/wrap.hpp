// Breaks lines that are too long for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/render/text.hpp"

namespace weft::topology::render {

/// Text in one colour; no colour: as the terminal has it.
struct Cell {
  std::string text{};
  std::string_view colour{};
};

/// `cell` as the style wants it.
std::string painted(const Cell& cell, const TextStyle& style);

/// Words with blanks between them. The first begins in column `at` of its line. Where the style has
/// a width, a word that would pass it begins a new line, in column `indent`; words are not broken.
std::string wrapped(const std::vector<Cell>& words, std::size_t at, std::size_t indent,
                    const TextStyle& style);

/// A line of text, its line's end included; what follows its first line begins in column 6.
std::string wrapped_line(std::string_view line, const TextStyle& style,
                         std::string_view colour = {});

/// The lines of a text, colours and the strokes of a tree among it, broken at blanks like
/// wrapped_line. All but the first part of a line begin 6 columns to the right of it, with the
/// strokes that go on.
std::string wrapped_lines(std::string_view text, const TextStyle& style);

}  // namespace weft::topology::render
