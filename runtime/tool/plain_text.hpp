// Text that somebody else has written, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace weft::tool {

/// UTF-8 without control characters, in one line: whatever else is in `text` becomes "?".
std::string plain(std::string_view text);

}  // namespace weft::tool
