#include "base/printable.hpp"

#include <algorithm>

namespace weft {
namespace {

unsigned char at(std::string_view text, std::size_t i) noexcept {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

bool is_plain_ascii(char c) noexcept { return c >= 0x20 && c < 0x7f; }

}  // namespace

std::size_t utf8_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const unsigned char first = at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if (at(text, i) < 0x80 || at(text, i) > 0xbf) return 0;
  // Longer forms than needed, surrogates, and numbers above U+10FFFF.
  const unsigned char second = at(text, 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90))
    return 0;
  return length;
}

std::size_t printable_bytes(std::string_view text) noexcept {
  const std::size_t length = utf8_bytes(text);
  const unsigned char first = at(text, 0);
  const unsigned char second = at(text, 1);
  const unsigned char third = at(text, 2);
  if (length == 1) return is_plain_ascii(text[0]) ? 1 : 0;
  if (first == 0xc2 && second < 0xa0) return 0;  // U+0080 to U+009F
  // U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F
  if (first == 0xe2 && second == 0x80 && ((third >= 0x8b && third <= 0x8f) || third >= 0xa8))
    return third > 0xae ? length : 0;
  if (first == 0xe2 && second == 0x81 && third >= 0xa0 && third <= 0xaf) return 0;
  return length;
}

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain_ascii)) return std::string(text);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line;
  while (!text.empty()) {
    const std::size_t bytes = printable_bytes(text);
    const unsigned char first = at(text, 0);
    if (bytes != 0)
      line += text.substr(0, bytes);
    else if (first == '\n' || first == '\r' || first == '\t')
      line += ' ';
    else
      line += {'\\', 'x', kDigits[first / 16], kDigits[first % 16]};
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return line;
}

}  // namespace weft
