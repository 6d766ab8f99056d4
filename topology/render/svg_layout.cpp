#include "topology/render/svg_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "topology/render/labels.hpp"

namespace weft::topology::render {
namespace {

constexpr double kGap = 14;      // between boxes side by side
constexpr double kRowGap = 30;   // between rows, where lines are drawn
constexpr double kPadding = 14;  // inside a box with others in it
constexpr double kDevicePadding = 10;
constexpr std::size_t kLongLine = 26;  // characters of a device's line before it is broken

/// Breaks `text` at blanks into lines of about kLongLine characters.
void add_broken(std::vector<Line>& lines, const std::string& text) {
  std::size_t from = 0;
  while (text.size() - from > kLongLine) {
    auto blank = text.rfind(' ', from + kLongLine);
    if (blank == text.npos || blank <= from) blank = text.find(' ', from);
    if (blank == text.npos) break;
    lines.push_back({text.substr(from, blank - from)});
    from = blank + 1;
  }
  if (from < text.size()) lines.push_back({text.substr(from)});
}

class Layout {
 public:
  Layout(const View& view, double widest) : view_(view), widest_(widest) {}

  Box place(const Outline& root) const {
    Box box = measure(root);
    move(box, 0, 0);
    return box;
  }

 private:
  Box measure(const Outline& part) const {
    Box box{part.part, part.index};
    box.lines = lines_of(part);
    double text_height = 0;
    for (const Line& line : box.lines) {
      box.width = std::max(box.width, text_width(line));
      text_height += line_height(line.ink);
    }
    const double padding = box.is_device()             ? kDevicePadding
                           : box.part == Part::machine ? 0
                                                       : kPadding;
    for (const Outline& child : part.children) add_inner(part, child, box);
    even_out(box);
    // Lines from GPUs reach NICs from above, so labels of boxes around NICs are below the NICs.
    const bool below = row_of(box) == 2 && !box.is_device() && box.part >= Part::host_bridge;
    const auto [width, bottom] = arrange(box, padding, below ? 0 : text_height);
    box.text_y = below ? bottom + 4 : padding - 4;
    box.width = std::max(box.width, width) + 2 * padding;
    box.height = bottom + (below ? 4 + text_height : 0) + padding;
    return box;
  }

  /// Omits the box of a NUMA node's only host bridge, which would add no information.
  void add_inner(const Outline& part, const Outline& child, Box& box) const {
    if (part.part == Part::numa && part.children.size() == 1 && child.part == Part::host_bridge)
      for (const Outline& inner : child.children) box.inner.push_back(measure(inner));
    else
      box.inner.push_back(measure(child));
  }

  /// Gives the devices in a box the same width, so that GPUs stand above their NICs.
  static void even_out(Box& box) {
    double widest = 0;
    for (const Box& inner : box.inner)
      if (inner.is_device()) widest = std::max(widest, inner.width);
    for (Box& inner : box.inner)
      if (inner.is_device()) inner.width = widest;
  }

  /// Row of a box: GPUs, then boxes with both, then NICs, so that the lines between them are short.
  static int row_of(const Box& box) {
    const bool gpu = box.has(Part::gpu);
    const bool nic = box.has(Part::nic);
    return gpu && !nic ? 0 : nic && !gpu ? 2 : 1;
  }

  /// Positions the inner boxes relative to the outer one. Returns their total width and the height
  /// down to their lower edge.
  std::pair<double, double> arrange(Box& box, double padding, double text_height) const {
    const bool by_kind = box.part >= Part::numa;
    double widest = 0;
    const double start = text_height > 0 ? padding + text_height : padding - kGap;
    double top = start;
    for (int row = by_kind ? 0 : 1; row <= (by_kind ? 2 : 1); ++row) {
      std::vector<Box*> boxes;
      for (Box& inner : box.inner)
        if (!by_kind || row_of(inner) == row) boxes.push_back(&inner);
      if (boxes.empty()) continue;
      if (top > start) top += kRowGap - kGap;
      widest = std::max(widest, flow(boxes, padding, top));
    }
    return {widest, top};
  }

  /// Number of rows needed if no row may be wider than the picture should be.
  std::size_t rows_of(const std::vector<Box*>& boxes) const {
    std::size_t rows = 1;
    double width = 0;
    for (const Box* box : boxes) {
      if (width > 0 && width + box->width > widest_) {
        ++rows;
        width = 0;
      }
      width += box->width + kGap;
    }
    return rows;
  }

  /// Places boxes side by side in rows of nearly equal length. Moves `top` below them; returns the
  /// width.
  double flow(const std::vector<Box*>& boxes, double left, double& top) const {
    const std::size_t rows = rows_of(boxes);
    const std::size_t in_row = (boxes.size() + rows - 1) / rows;
    double widest = 0;
    for (std::size_t from = 0; from < boxes.size(); from += in_row) {
      const std::size_t to = std::min(from + in_row, boxes.size());
      double x = left;
      double height = 0;
      top += kGap;
      for (std::size_t i = from; i < to; ++i) {
        boxes[i]->x = x;
        boxes[i]->y = top;
        x += boxes[i]->width + kGap;
        height = std::max(height, boxes[i]->height);
      }
      // All boxes of a row have the same height.
      for (std::size_t i = from; i < to; ++i) boxes[i]->height = height;
      widest = std::max(widest, x - kGap - left);
      top += height;
    }
    return widest;
  }

  static void move(Box& box, double x, double y) {
    box.x += x;
    box.y += y;
    for (Box& inner : box.inner) move(inner, box.x, box.y);
    center(box);
  }

  /// Centres rows that are narrower than the box. Packages and NUMA nodes begin below the beginning
  /// of their title.
  static void center(Box& box) {
    if (box.part == Part::machine || box.part == Part::package) return;
    for (std::size_t i = 0; i < box.inner.size();) {
      double right = 0;
      double left = box.x + box.width;
      for (const Box& inner : box.inner)
        if (inner.y == box.inner[i].y) {
          left = std::min(left, inner.x);
          right = std::max(right, inner.x + inner.width);
        }
      const double shift = (box.x + box.width - right - (left - box.x)) / 2;
      const double y = box.inner[i].y;
      for (Box& inner : box.inner)
        if (inner.y == y && std::abs(shift) > 0.01) shift_all(inner, shift);
      while (i < box.inner.size() && box.inner[i].y == y) ++i;
    }
  }

  static void shift_all(Box& box, double x) {
    box.x += x;
    for (Box& inner : box.inner) shift_all(inner, x);
  }

  std::vector<Line> lines_of(const Outline& part) const {
    const Model& model = view_.model;
    switch (part.part) {
      case Part::machine:
        return {};
      case Part::package:
        return package_lines(part.index);
      case Part::numa:
        return numa_lines(part);
      case Part::host_bridge:
      case Part::pci_switch: {
        const PciNode& node = model.pci[static_cast<std::size_t>(part.index)];
        return {{bridge_text(node)}};
      }
      case Part::gpu:
        return gpu_lines(part);
      case Part::nic:
        return nic_lines(part);
    }
    return {};
  }

  std::vector<Line> package_lines(int number) const {
    std::vector<Line> lines{{fmt::format("package {}", number), Ink::name}};
    for (const Package& package : view_.model.packages)
      if (package.number == number && !package.model.empty()) lines.push_back({package.model});
    return lines;
  }

  std::vector<Line> numa_lines(const Outline& part) const {
    std::vector<Line> lines{{numa_text(part.index), Ink::name}};
    for (const NumaNode& node : view_.model.numa)
      if (node.number == part.index && !node.cpus.empty())
        lines.push_back({count_text(node.cpus.size(), "processor")});
    if (part.children.empty()) lines.push_back({"no GPU, no NIC"});
    return lines;
  }

  std::vector<Line> gpu_lines(const Outline& part) const {
    const Gpu& gpu = view_.gpu(part.index);
    std::vector<Line> lines{{gpu.name, Ink::name}, {address_text(view_.model, gpu)}};
    if (gpu.pci != kNone)
      add_broken(lines, view_.model.pci[static_cast<std::size_t>(gpu.pci)].description);
    if (const auto link = link_text(part.link); !link.empty()) lines.push_back({link});
    const Choice* choice = view_.choice_of(part.index);
    if (choice == nullptr) return lines;
    if (choice->nic == kNone) {
      lines.push_back({"no NIC", Ink::choice});
    } else {
      lines.push_back({"→ " + view_.nic(choice->nic).name, Ink::choice});
      lines.push_back({fmt::format("{}, {}", name(choice->path.path_class),
                                   choice->gdr ? "GPUDirect" : "host memory"),
                       Ink::choice});
    }
    return lines;
  }

  std::vector<Line> nic_lines(const Outline& part) const {
    const Nic& nic = view_.nic(part.index);
    std::vector<Line> lines{{nic.name, Ink::name}};
    if (const auto address = address_text(view_.model, nic); address != nic.name)
      lines.push_back({address});
    add_broken(lines, port_text(nic));
    if (const auto link = link_text(part.link); !link.empty()) lines.push_back({link});
    if (!view_.verdict(part.index).usable)
      add_broken(lines, "not used: " + view_.reason(part.index));
    return lines;
  }

  const View& view_;
  double widest_;
};

}  // namespace

bool Box::has(Part wanted) const {
  return part == wanted ||
         std::any_of(inner.begin(), inner.end(), [&](const Box& box) { return box.has(wanted); });
}

double font_size(Ink ink) {
  switch (ink) {
    case Ink::title:
      return 22;
    case Ink::name:
      return 16;
    case Ink::choice:
      return 14;
    case Ink::detail:
      return 13;
  }
  return 13;
}

double line_height(Ink ink) { return std::ceil(font_size(ink) * 1.35); }

double text_width(const Line& line) {
  // In common sans-serif fonts, digits are 0.56 em wide and capitals up to 0.75 em.
  const bool bold = line.ink != Ink::detail;
  double ems = 0;
  for (const char c : line.text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
    const bool narrow = c == ' ' || c == '.' || c == ':' || c == ',' || c == 'i' || c == 'l';
    const bool wide = (c >= 'A' && c <= 'Z') || c == 'm' || c == 'w';
    ems += narrow ? 0.34 : wide ? 0.76 : 0.6;
  }
  return ems * font_size(line.ink) * (bold ? 1.06 : 1);
}

Box lay_out(const View& view) {
  const Outline machine = outline(view.model);
  constexpr double kScreen = 16.0 / 9;
  Box best;
  double least = HUGE_VAL;
  for (const double widest : {500, 700, 900, 1100, 1300, 1500, 1800, 2200, 2800, 3600}) {
    Box box = Layout(view, widest).place(machine);
    const double off = std::abs(std::log(box.width / box.height / kScreen));
    if (off >= least - 0.01) continue;
    least = off;
    best = std::move(box);
  }
  return best;
}

}  // namespace weft::topology::render
