// Text inside XML.
#pragma once

#include <string>
#include <string_view>

namespace weft::topology::render {

/// As content or as a value in double quotes. Control characters, which XML can't have, become
/// spaces.
std::string xml_text(std::string_view text);

}  // namespace weft::topology::render
