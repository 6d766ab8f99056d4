#include "runtime/tool/plain_text.hpp"

#include <cstddef>

namespace weft::tool {
namespace {

unsigned char at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

/// Number of bytes of the character at the start of `text` if it may be printed, else 0.
std::size_t shown(std::string_view text) {
  const unsigned char first = at(text, 0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if (at(text, i) < 0x80 || at(text, i) > 0xbf) return 0;
  // U+0080 to U+009F are controls; E2 80 and E2 81 include those that change a line's direction.
  if (first == 0xc2 && at(text, 1) < 0xa0) return 0;
  if (first == 0xe2 && (at(text, 1) == 0x80 || at(text, 1) == 0x81)) return 0;
  return length;
}

}  // namespace

std::string plain(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t bytes = shown(text);
    if (bytes == 0)
      clean += '?';
    else
      clean += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return clean;
}

}  // namespace weft::tool
