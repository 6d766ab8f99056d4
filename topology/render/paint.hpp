// Colours on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace weft::topology::render {

inline constexpr std::string_view kBold = "\033[1m";
inline constexpr std::string_view kDim = "\033[2m";
inline constexpr std::string_view kChosen = "\033[1;32m";
inline constexpr std::string_view kRail = "\033[32m";
inline constexpr std::string_view kOdd = "\033[33m";

/// `text` in `colour`, or unchanged unless `wanted`.
inline std::string paint(std::string_view colour, std::string_view text, bool wanted) {
  if (!wanted || text.empty()) return std::string(text);
  return std::string(colour) + std::string(text) + "\033[0m";
}

}  // namespace weft::topology::render
