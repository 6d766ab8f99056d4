#include <fmt/format.h>

#include <iterator>

#include "topology/render/exports.hpp"
#include "topology/render/labels.hpp"
#include "topology/render/outline.hpp"

namespace weft::topology::render {
namespace {

/// Escapes `text` for use inside double quotes.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return safe;
}

class Graph {
 public:
  explicit Graph(const View& view) : view_(view) {}

  std::string draw() {
    text_ = fmt::format(
        "digraph machine {{\n  label=\"{}\"; labelloc=t; rankdir=TB; fontname=\"sans-serif\";\n"
        "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n"
        "  edge [dir=none, fontname=\"sans-serif\"];\n",
        quoted(machine_text(view_.model)));
    draw_children(outline(view_.model), "");
    for (const Choice& choice : view_.selection.choices) draw_choice(choice);
    return text_ + "}\n";
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "  ";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void draw_children(const Outline& part, const std::string& parent) {
    for (const Outline& child : part.children) {
      const bool is_group = child.part == Part::package || child.part == Part::numa;
      if (is_group) {
        line("subgraph cluster_{} {{", clusters_++);
        line("label=\"{}\";", child.part == Part::numa ? numa_text(child.index)
                                                       : fmt::format("package {}", child.index));
        // Graphviz does not draw an empty cluster.
        if (child.children.empty())
          line("empty{} [label=\"no GPU, no NIC\", style=dashed];", clusters_);
        draw_children(child, "");
        line("}}");
        continue;
      }
      const auto id = draw_node(child);
      if (!parent.empty()) line("{} -> {} [label=\"{}\"];", parent, id, link_text(child.link));
      draw_children(child, id);
    }
  }

  std::string draw_node(const Outline& part) {
    const Model& model = view_.model;
    if (part.part == Part::gpu) {
      const Gpu& gpu = view_.gpu(part.index);
      line("gpu{} [label=\"{}\\n{}\", fillcolor=\"#b8e0a5\"];", part.index, quoted(gpu.name),
           address_text(model, gpu));
      return fmt::format("gpu{}", part.index);
    }
    if (part.part == Part::nic) {
      const Nic& nic = view_.nic(part.index);
      line("nic{} [label=\"{}\\n{}\\n{}\", fillcolor=\"{}\"];", part.index, quoted(nic.name),
           address_text(model, nic), port_text(nic),
           view_.verdict(part.index).usable ? "#a9cdf0" : "#d8d8d8");
      return fmt::format("nic{}", part.index);
    }
    line("pci{} [label=\"{}\", fillcolor=\"#eeeeee\"];", part.index,
         quoted(bridge_text(model.pci[static_cast<std::size_t>(part.index)])));
    return fmt::format("pci{}", part.index);
  }

  void draw_choice(const Choice& choice) {
    if (choice.gpu == kNone) return;
    for (const int nic : choice.rails) {
      if (nic == choice.nic)
        line("gpu{} -> nic{} [color=\"#d9480f\", penwidth=3, constraint=false, label=\"{}{}\"];",
             choice.gpu, nic, name(choice.path.path_class), choice.gdr ? " GPUDirect" : "");
      else
        line("gpu{} -> nic{} [color=\"#d9480f\", style=dashed, constraint=false];", choice.gpu,
             nic);
    }
  }

  const View& view_;
  std::string text_;
  int clusters_ = 0;
};

}  // namespace

std::string as_dot(const View& view) { return Graph(view).draw(); }

}  // namespace weft::topology::render
