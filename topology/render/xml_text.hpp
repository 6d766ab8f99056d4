// Escapes text for XML.
#pragma once

#include <string>
#include <string_view>

namespace weft::topology::render {

/// Escapes for content and for values in double quotes. Control characters, which XML does not
/// allow, become spaces.
std::string xml_text(std::string_view text);

}  // namespace weft::topology::render
