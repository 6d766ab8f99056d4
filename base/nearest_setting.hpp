// The setting that a misspelt variable was probably meant to be.
#pragma once

#include <string_view>

namespace weft {

/// The WEFT_ variable with the fewest insertions, deletions and replacements from `name`.
std::string_view nearest_setting(std::string_view name);

}  // namespace weft
