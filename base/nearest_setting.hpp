// Which variable a misspelt name was meant to be.
#pragma once

#include <string_view>

namespace weft {

/// The WEFT_ variable that is the fewest insertions, deletions and replacements away from `name`.
std::string_view nearest_setting(std::string_view name);

}  // namespace weft
