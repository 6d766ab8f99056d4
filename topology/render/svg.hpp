// A machine as a picture.
#pragma once

#include <cstdint>
#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

/// The picture paints its own ground, so that it can be read on any page. `automatic`: light, and
/// dark where the viewer asks for it (prefers-color-scheme).
enum class Theme : std::uint8_t { automatic, light, dark };

/// Boxes for packages, NUMA nodes, switches and devices; a line from each GPU to the NIC that it
/// gets, dashed ones to those as good.
std::string as_svg(const View& view, Theme theme);

}  // namespace weft::topology::render
