// Where everything of a picture goes.
#pragma once

#include <string>
#include <vector>

#include "topology/render/outline.hpp"
#include "topology/render/view.hpp"

namespace weft::topology::render {

/// How a line of text looks.
enum class Ink : std::uint8_t { title, name, detail, choice };

struct Line {
  std::string text;
  Ink ink = Ink::detail;
};

/// A rectangle with text and what lies in it. Pixels, from the picture's upper left corner.
struct Box {
  Part part = Part::machine;
  int index = kNone;  ///< Outline::index
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  std::vector<Line> lines{};
  double text_y = 0;  ///< where the text begins, from the box's upper edge
  std::vector<Box> inner{};

  /// Whether a GPU, or a NIC, is in it.
  bool has(Part wanted) const;
  bool is_device() const noexcept { return part == Part::gpu || part == Part::nic; }
};

/// Packages beside or below each other, whichever comes nearest to the shape of a screen; GPUs
/// above NICs. Texts are never cut off: boxes are as wide as they are.
Box lay_out(const View& view);

/// About how wide it is drawn.
double text_width(const Line& line);
/// Pixels.
double font_size(Ink ink);
double line_height(Ink ink);

}  // namespace weft::topology::render
