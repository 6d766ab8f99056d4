#include "topology/render/outline.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft::topology::render {
namespace {

const PciNode& node_at(const Model& model, int index) {
  return model.pci[static_cast<std::size_t>(index)];
}

bool is_bridge(const Model& model, int index) {
  return node_at(model, index).kind == PciKind::bridge;
}

/// The ancestors of a node, the nearest first.
std::vector<int> above(const Model& model, int node) {
  std::vector<int> chain;
  if (node == kNone) return chain;
  for (int at = node_at(model, node).parent; at != kNone; at = node_at(model, at).parent)
    chain.push_back(at);
  return chain;
}

/// Selects the ports of a PCI tree that represent whole switches.
class Switches {
 public:
  explicit Switches(const Model& model) : model_(model) {
    for (std::size_t i = 0; i < model.pci.size(); ++i)
      if (model.pci[i].kind == PciKind::whole_switch) shown_.insert(static_cast<int>(i));
    std::vector<int> gpus;
    std::vector<int> others;
    for (const Gpu& gpu : model.gpus) gpus.push_back(gpu.pci);
    for (const Nic& nic : model.nics) others.push_back(nic.pci);
    others.insert(others.end(), gpus.begin(), gpus.end());
    for (const int gpu : gpus)
      for (const int other : others) meet(gpu, other);
    for (const auto& [device, meeting] : legs_) split(device, meeting);
  }

  bool shows(int node) const { return shown_.contains(node); }

 private:
  /// Marks the port where two devices meet as a switch.
  void meet(int a, int b) {
    if (a == b || a == kNone || b == kNone) return;
    const auto above_a = above(model_, a);
    const auto above_b = above(model_, b);
    const auto met =
        std::find_first_of(above_a.begin(), above_a.end(), above_b.begin(), above_b.end());
    if (met == above_a.end() || !is_bridge(model_, *met)) return;
    shown_.insert(*met);
    legs_.emplace(a, *met);
    legs_.emplace(b, *met);
  }
  /// Marks another switch if at least two ports lie between a device and the meeting point.
  void split(int device, int meeting) {
    const auto chain = above(model_, device);
    const auto met = std::find(chain.begin(), chain.end(), meeting);
    const auto ports = met - chain.begin();
    if (ports < 2 || std::any_of(chain.begin(), met, [&](int node) { return shows(node); })) return;
    shown_.insert(chain[1]);
  }

  const Model& model_;
  std::set<int> shown_;
  std::set<std::pair<int, int>> legs_;
};

/// Sorts devices into switches, host bridges, NUMA nodes and packages.
class Builder {
 public:
  explicit Builder(const Model& model) : model_(model), switches_(model) {}

  Outline build() {
    for (const NumaNode& node : model_.numa)
      if (!node.cpus.empty() && node.memory == MemoryKind::ordinary) numa(node.number);
    for (std::size_t i = 0; i < model_.gpus.size(); ++i)
      add(Part::gpu, static_cast<int>(i), model_.gpus[i].pci, model_.numa_of(model_.gpus[i]));
    for (std::size_t i = 0; i < model_.nics.size(); ++i)
      add(Part::nic, static_cast<int>(i), model_.nics[i].pci, model_.numa_of(model_.nics[i]));
    sort(root_);
    return std::move(root_);
  }

 private:
  static Outline& child(Outline& parent, Part part, int index) {
    for (Outline& known : parent.children)
      if (known.part == part && known.index == index) return known;
    return parent.children.emplace_back(Outline{part, index});
  }

  Outline& numa(int number) {
    const int package = model_.package_of(number);
    Outline& home = package == kNone ? root_ : child(root_, Part::package, package);
    return child(home, Part::numa, number);
  }

  void add(Part part, int index, int pci, int numa_number) {
    const auto chain = above(model_, pci);
    Outline* place = &numa(numa_number == kNone ? model_.sole_numa() : numa_number);
    // From the root down: a shown node becomes a part; a hidden one only narrows the link.
    Link narrowest;
    const auto narrow = [&](const Link& link) {
      if (link.known() && (!narrowest.known() || link.gbytes < narrowest.gbytes)) narrowest = link;
    };
    for (auto node = chain.rbegin(); node != chain.rend(); ++node) {
      const bool is_root = node_at(model_, *node).kind == PciKind::host_bridge;
      if (!is_root) narrow(node_at(model_, *node).link);
      if (!is_root && !switches_.shows(*node)) continue;
      place = &child(*place, is_root ? Part::host_bridge : Part::pci_switch, *node);
      place->link = std::exchange(narrowest, Link{});
    }
    if (pci != kNone) narrow(node_at(model_, pci).link);
    // If the device's own link is not known, the ports above do not replace it.
    if (pci != kNone && !node_at(model_, pci).link.known()) narrowest = {};
    place->children.push_back(Outline{part, index, narrowest});
  }

  std::tuple<unsigned, PciAddress, int> order(const Outline& part) const {
    PciAddress first{.domain = ~0U};
    const auto take = [&](std::optional<PciAddress> address) {
      if (address && *address < first) first = *address;
    };
    if (part.part == Part::gpu)
      take(model_.address_of(model_.gpus[static_cast<std::size_t>(part.index)]));
    if (part.part == Part::nic)
      take(model_.address_of(model_.nics[static_cast<std::size_t>(part.index)]));
    for (const Outline& inner : part.children) take(std::get<PciAddress>(order(inner)));
    const bool by_number = part.part == Part::package || part.part == Part::numa;
    // kNone, as an unsigned number, comes last.
    return {by_number ? static_cast<unsigned>(part.index) : 0U, first, part.index};
  }

  void sort(Outline& part) const {
    for (Outline& inner : part.children) sort(inner);
    std::stable_sort(part.children.begin(), part.children.end(),
                     [&](const Outline& a, const Outline& b) { return order(a) < order(b); });
  }

  const Model& model_;
  Switches switches_;
  Outline root_;
};

}  // namespace

Outline outline(const Model& model) { return Builder(model).build(); }

}  // namespace weft::topology::render
