// Computes paths from the PCI tree and the NUMA nodes alone.
#include <fmt/format.h>

#include <algorithm>

#include "topology/model/path_class.hpp"

namespace weft::topology {
namespace {

const PciNode& node_at(const Model& model, int index) {
  return model.pci[static_cast<std::size_t>(index)];
}

/// The node itself and all its ancestors.
std::vector<int> chain_of(const Model& model, int node) {
  std::vector<int> chain;
  for (; node != kNone; node = node_at(model, node).parent) chain.push_back(node);
  return chain;
}

std::string words(const PciNode& node) {
  if (node.address) return node.address->text();
  return node.name.empty() ? "unnamed" : node.name;
}

std::string link_words(const PciNode& node) {
  const Link& link = node.link;
  if (link.width > 0 && link.gt_per_second > 0)
    return fmt::format("{}, {} lanes of {:g} GT/s", words(node), link.width, link.gt_per_second);
  return words(node);
}

/// The links on one side of a path: from a device up to the meeting point.
struct Side {
  std::vector<int> nodes;  ///< nodes whose link to the parent is on the path
  int bridges = 0;         ///< ports, or whole switches, below the meeting point
  bool all_known = true;
  double gbytes = 0;
  int narrowest = kNone;
};

Side side_of(const Model& model, const std::vector<int>& chain, int meeting) {
  Side side;
  // A device that is not on PCI has no known links.
  side.all_known = !chain.empty() && node_at(model, chain.front()).kind != PciKind::host_bridge;
  for (const int index : chain) {
    if (index == meeting) break;
    const PciNode& node = node_at(model, index);
    if (node.kind == PciKind::bridge || node.kind == PciKind::whole_switch) ++side.bridges;
    if (node.kind == PciKind::host_bridge) continue;
    side.nodes.push_back(index);
    if (!node.link.known()) {
      side.all_known = false;
    } else if (side.narrowest == kNone || node.link.gbytes < side.gbytes) {
      side.gbytes = node.link.gbytes;
      side.narrowest = index;
    }
  }
  return side;
}

void add_links(const Model& model, const Side& first, const Side& second, Path& path) {
  path.hops += static_cast<int>(first.nodes.size() + second.nodes.size());
  path.second_gbytes = second.gbytes;
  path.second_known = second.all_known;
  for (const Side* side : {&first, &second})
    if (side->narrowest != kNone && (path.gbytes <= 0 || side->gbytes < path.gbytes)) {
      path.gbytes = side->gbytes;
      path.narrowest = link_words(node_at(model, side->narrowest));
    }
}

/// Classifies a path between different host bridges, for which only the NUMA nodes count.
void set_by_numa(const Model& model, int numa_a, int numa_b, Path& path) {
  const int sole = model.sole_numa();
  if (numa_a == kNone) numa_a = sole;
  if (numa_b == kNone) numa_b = sole;
  ++path.hops;
  if (numa_a != kNone && numa_a == numa_b) {
    path.path_class = PathClass::NODE;
    path.text = fmt::format("other host bridges of NUMA node {}", numa_a);
    return;
  }
  path.path_class = PathClass::SYS;
  ++path.hops;
  if (numa_a == kNone || numa_b == kNone) {
    path.across_packages = true;
    path.text = "taken for another NUMA node: the source does not say which";
    return;
  }
  const int package_a = model.package_of(numa_a);
  const int package_b = model.package_of(numa_b);
  path.across_packages = package_a == kNone || package_b == kNone || package_a != package_b;
  for (const NumaDistance& distance : model.distances)
    if (distance.from == numa_a && distance.to == numa_b) path.distance = distance.distance;
  path.text = fmt::format("from NUMA node {} to {}{}", numa_a, numa_b,
                          path.across_packages ? "" : " of one package");
}

bool is_one_switch(const Model& model, int meeting, const Side& a, const Side& b,
                   const std::vector<int>& on_the_way) {
  const bool whole = std::any_of(on_the_way.begin(), on_the_way.end(), [&](int node) {
    return node_at(model, node).kind == PciKind::whole_switch;
  });
  // If each bridge is a whole switch, any bridge below the meeting point is another switch.
  if (whole || node_at(model, meeting).kind == PciKind::whole_switch)
    return a.bridges == 0 && b.bridges == 0;
  // If each bridge is one port, a single switch contributes the port where both meet and one port
  // below it on each side; a longer path crosses another switch.
  return a.bridges <= 1 && b.bridges <= 1;
}

int nvlinks_to(const Model& model, const Gpu& from, const Gpu& to, std::string& through) {
  int direct = 0;
  int by_switch = 0;
  for (const GpuLink& link : from.links) {
    if (link.to == PeerKind::gpu && link.gpu != kNone &&
        &model.gpus[static_cast<std::size_t>(link.gpu)] == &to)
      direct += link.count;
    if (link.to != PeerKind::nvswitch) continue;
    if (std::any_of(to.links.begin(), to.links.end(), [&](const GpuLink& other) {
          return other.to == PeerKind::nvswitch && other.target == link.target;
        }))
      by_switch += link.count;
  }
  through = direct > 0 ? "" : " by their switches";
  return direct > 0 ? direct : by_switch;
}

}  // namespace

Path path_between(const Model& model, int pci_a, int pci_b) {
  Path path;
  if (pci_a == pci_b && pci_a != kNone) {
    path.path_class = PathClass::LOC;
    path.second_known = true;
    path.meeting = pci_a;
    path.text = meaning(PathClass::LOC);
    return path;
  }
  const std::vector<int> chain_a = chain_of(model, pci_a);
  const std::vector<int> chain_b = chain_of(model, pci_b);
  const auto met =
      std::find_first_of(chain_a.begin(), chain_a.end(), chain_b.begin(), chain_b.end());
  path.meeting = met == chain_a.end() ? kNone : *met;
  const Side a = side_of(model, chain_a, path.meeting);
  const Side b = side_of(model, chain_b, path.meeting);
  add_links(model, a, b, path);
  if (path.meeting == kNone) {
    set_by_numa(model, model.numa_of(pci_a), model.numa_of(pci_b), path);
    return path;
  }
  const PciNode& meeting = node_at(model, path.meeting);
  if (meeting.kind == PciKind::host_bridge) {
    path.path_class = PathClass::PHB;
    path.text = fmt::format("the same host bridge ({})", words(meeting));
    return path;
  }
  std::vector<int> on_the_way = a.nodes;
  on_the_way.insert(on_the_way.end(), b.nodes.begin(), b.nodes.end());
  path.path_class =
      is_one_switch(model, path.meeting, a, b, on_the_way) ? PathClass::PIX : PathClass::PXB;
  path.text = fmt::format("{} ({})", meaning(path.path_class), words(meeting));
  return path;
}

Path path_between(const Model& model, const Gpu& gpu, const Nic& nic) {
  Path path = path_between(model, gpu.pci, nic.pci);
  if (gpu.pci == kNone || nic.pci == kNone) {
    path.hops = 0;
    set_by_numa(model, model.numa_of(gpu), model.numa_of(nic), path);
  }
  const bool by_the_processor =
      path.path_class == PathClass::PHB || path.path_class == PathClass::NODE;
  if (gpu.c2c_gbytes > 0 && by_the_processor) {
    path.path_class = PathClass::P2C;
    path.text =
        fmt::format("a coherent link of {:g} GB/s to the processor, then PCIe", gpu.c2c_gbytes);
  }
  return path;
}

Path path_between(const Model& model, const Gpu& a, const Gpu& b) {
  Path path = path_between(model, a.pci, b.pci);
  std::string through;
  int links = nvlinks_to(model, a, b, through);
  if (links == 0) links = nvlinks_to(model, b, a, through);
  if (links == 0 || &a == &b || path.path_class == PathClass::LOC) return path;
  path = {};
  path.path_class = PathClass::NVL;
  path.hops = through.empty() ? 1 : 2;
  path.text = fmt::format("{} links between GPUs{}", links, through);
  return path;
}

Path path_to_numa(const Model& model, int numa, const Nic& nic) {
  Path path;
  const Side up = side_of(model, chain_of(model, nic.pci), kNone);
  add_links(model, {}, up, path);
  set_by_numa(model, numa, model.numa_of(nic), path);
  if (path.path_class == PathClass::NODE) path.text = fmt::format("on NUMA node {}", numa);
  return path;
}

Path path_to_numa(const Model& model, int numa, const Gpu& gpu) {
  Path path;
  const Side up = side_of(model, chain_of(model, gpu.pci), kNone);
  add_links(model, {}, up, path);
  set_by_numa(model, numa, model.numa_of(gpu), path);
  if (path.path_class == PathClass::NODE && gpu.c2c_gbytes > 0) {
    path = {};
    path.path_class = PathClass::C2C;
    path.hops = 1;
    path.gbytes = gpu.c2c_gbytes;
    path.text = fmt::format("a coherent link of {:g} GB/s", gpu.c2c_gbytes);
  }
  return path;
}

}  // namespace weft::topology
