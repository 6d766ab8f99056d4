// Draws a machine as an SVG picture.
#pragma once

#include <cstdint>
#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

/// The picture has its own background, so that it is readable on any page. `automatic`: light, or
/// dark if the viewer prefers that (prefers-color-scheme).
enum class Theme : std::uint8_t { automatic, light, dark };

/// Draws boxes for packages, NUMA nodes, switches and devices, a line from each GPU to its NIC, and
/// dashed lines to equally good NICs.
std::string as_svg(const View& view, Theme theme);

}  // namespace weft::topology::render
