// Makes text from other processes safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace weft::tool {

/// Returns `text` as UTF-8 on one line without control characters; any other byte becomes "?".
std::string plain(std::string_view text);

}  // namespace weft::tool
