#include "topology/import/pci_tree.hpp"

#include "topology/import/trouble.hpp"

namespace weft::topology {

int PciTree::add(PciNode node, int line) {
  const int index = static_cast<int>(model_.pci.size());
  if (node.address) {
    const auto [at, fresh] = seen_.try_emplace(*node.address, index, line);
    if (!fresh) {
      const auto [first, first_line] = at->second;
      for (int above = node.parent; above != kNone;
           above = model_.pci[static_cast<std::size_t>(above)].parent)
        if (above == first)
          refuse_file(
              file_, line,
              fmt::format("{} lies inside itself (line {})", node.address->text(), first_line));
      if (node.kind == PciKind::device ||
          model_.pci[static_cast<std::size_t>(first)].kind == PciKind::device)
        refuse_file(
            file_, line,
            fmt::format("{} was there before, in line {}", node.address->text(), first_line));
      model_.notes.push_back(fmt::format("{}, line {}: a second switch {} (the first: line {})",
                                         file_, line, node.address->text(), first_line));
    }
  }
  node.sources.push_back({.fact = "device", .source = source(line)});
  model_.pci.push_back(std::move(node));
  return index;
}

PciAddress PciTree::address(const XmlElement& element, const char* attribute) const {
  const std::string* text = element.attribute(attribute);
  if (text == nullptr)
    refuse_file(file_, element.line,
                fmt::format("<{}> has no {}", excerpt(element.name), attribute));
  const auto address = PciAddress::parse(*text);
  if (!address)
    refuse_file(file_, element.line,
                fmt::format("{}=\"{}\" is no PCI address", attribute, excerpt(*text)));
  return *address;
}

std::string PciTree::source(int line) const { return fmt::format("{} line {}", file_, line); }

}  // namespace weft::topology
