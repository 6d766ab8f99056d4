#include <fmt/format.h>

#include <iterator>

#include "topology/render/labels.hpp"
#include "topology/render/outline.hpp"
#include "topology/render/paint.hpp"
#include "topology/render/text.hpp"

namespace weft::topology::render {
namespace {

class Tree {
 public:
  Tree(const View& view, const TextStyle& style) : view_(view), style_(style) {}

  std::string draw(const Outline& root) {
    text_ = paint(kBold, machine_text(view_.model), style_.colour) + '\n';
    draw_children(root, "");
    return std::move(text_);
  }

 private:
  void draw_children(const Outline& part, const std::string& indent) {
    for (const Outline& child : part.children) {
      const bool last = &child == &part.children.back();
      text_ += indent + (last ? "└─ " : "├─ ") + words(child) + '\n';
      draw_children(child, indent + (last ? "   " : "│  "));
    }
  }

  std::string words(const Outline& part) const {
    const Model& model = view_.model;
    const auto index = static_cast<std::size_t>(part.index);
    const auto link = link_text(part.link);
    const auto by = link.empty() ? "" : fmt::format("  [{}]", link);
    switch (part.part) {
      case Part::machine:
        return machine_text(model);
      case Part::package:
        return fmt::format("package {}", part.index);
      case Part::numa:
        return numa_words(part.index);
      case Part::host_bridge:
      case Part::pci_switch:
        return bridge_text(model.pci[index]) + by;
      case Part::gpu:
        return gpu_words(part.index) + by;
      case Part::nic:
        return nic_words(part.index) + by;
    }
    return {};
  }

  std::string numa_words(int number) const {
    for (const NumaNode& node : view_.model.numa)
      if (node.number == number && !node.cpus.empty())
        return fmt::format("{}, processors {}", numa_text(number), cpus_text(node.cpus));
    return numa_text(number);
  }

  std::string gpu_words(int index) const {
    const Gpu& gpu = view_.gpu(index);
    const auto description =
        gpu.pci == kNone ? "" : view_.model.pci[static_cast<std::size_t>(gpu.pci)].description;
    auto text =
        fmt::format("{} {}{}{}", paint(kBold, gpu.name, style_.colour),
                    address_text(view_.model, gpu), description.empty() ? "" : " ", description);
    const Choice* choice = view_.choice_of(index);
    if (choice != nullptr && choice->nic != kNone)
      text += paint(kChosen,
                    fmt::format("  -> {} {}{}", view_.nic(choice->nic).name,
                                name(choice->path.path_class), choice->gdr ? " GPUDirect" : ""),
                    style_.colour);
    return text;
  }

  std::string nic_words(int index) const {
    const Nic& nic = view_.nic(index);
    const auto port = port_text(nic);
    auto text = paint(kBold, nic.name, style_.colour);
    if (const auto address = address_text(view_.model, nic); address != nic.name)
      text += " " + address;
    if (!port.empty()) text += " " + port;
    if (!view_.verdict(index).usable)
      text += paint(kDim, "  not used: " + view_.reason(index), style_.colour);
    return text;
  }

  const View& view_;
  TextStyle style_;
  std::string text_;
};

}  // namespace

std::string as_tree(const View& view, const TextStyle& style) {
  return Tree(view, style).draw(outline(view.model));
}

}  // namespace weft::topology::render
