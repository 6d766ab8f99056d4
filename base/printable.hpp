// Text that a terminal, a log and JSON can show: no control characters, and UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Number of bytes of the UTF-8 character at the start of `text`; 0 if there is none.
std::size_t utf8_bytes(std::string_view text) noexcept;
/// The same if the character may be shown: it neither controls the terminal nor changes the
/// direction of the line.
std::size_t printable_bytes(std::string_view text) noexcept;
/// `text` on one line: line breaks and tabs become spaces, and other bytes that may not be shown
/// their numbers, such as "\x1b".
std::string printable(std::string_view text);

}  // namespace weft
