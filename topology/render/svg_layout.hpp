// Computes the position of everything in a picture.
#pragma once

#include <string>
#include <vector>

#include "topology/render/outline.hpp"
#include "topology/render/view.hpp"

namespace weft::topology::render {

/// Style of a line of text.
enum class Ink : std::uint8_t { title, name, detail, choice };

struct Line {
  std::string text;
  Ink ink = Ink::detail;
};

/// A rectangle with text and inner boxes. Pixels, from the picture's upper left corner.
struct Box {
  Part part = Part::machine;
  int index = kNone;  ///< Outline::index
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  std::vector<Line> lines{};
  double text_y = 0;  ///< start of the text below the box's upper edge
  std::vector<Box> inner{};

  /// True if the box contains a GPU (or NIC).
  bool has(Part wanted) const;
  bool is_device() const noexcept { return part == Part::gpu || part == Part::nic; }
};

/// Arranges packages beside or below each other, whichever is closer to a screen's aspect ratio,
/// and GPUs above NICs. Boxes are as wide as their text, which is never cut off.
Box lay_out(const View& view);

/// Approximate width of the line in pixels.
double text_width(const Line& line);
/// Pixels.
double font_size(Ink ink);
double line_height(Ink ink);

}  // namespace weft::topology::render
