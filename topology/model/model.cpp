#include "topology/model/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::topology {
namespace {

/// True if any of `cpus` is in `of`.
bool overlap(const std::vector<int>& cpus, const std::vector<int>& of) {
  return std::any_of(cpus.begin(), cpus.end(),
                     [&](int cpu) { return std::find(of.begin(), of.end(), cpu) != of.end(); });
}

}  // namespace

double pcie_gbytes(double gt_per_second, int width) noexcept {
  struct Generation {
    double gt_per_second;
    double gbytes;  // per lane
  };
  // Line codes: 8b/10b, then 128b/130b, then flits whose CRC and error correction take about 5 %.
  static constexpr std::array<Generation, 7> kGenerations{{{2.5, 0.25},
                                                           {5, 0.5},
                                                           {8, 8 * 128.0 / 130 / 8},
                                                           {16, 16 * 128.0 / 130 / 8},
                                                           {32, 32 * 128.0 / 130 / 8},
                                                           {64, 64 * 242.0 / 256 / 8},
                                                           {128, 128 * 242.0 / 256 / 8}}};
  static constexpr std::array kWidths{1, 2, 4, 8, 12, 16, 32};
  if (std::find(kWidths.begin(), kWidths.end(), width) == kWidths.end()) return 0;
  for (const Generation& generation : kGenerations)
    if (std::abs(generation.gt_per_second - gt_per_second) < 0.01) return generation.gbytes * width;
  return 0;
}

std::string_view name(PortState state) noexcept {
  switch (state) {
    case PortState::down:
      return "down";
    case PortState::initializing:
      return "init";
    case PortState::armed:
      return "armed";
    case PortState::active:
      return "active";
    case PortState::active_defer:
      return "active_defer";
    case PortState::unknown:
      break;
  }
  return "unknown";
}

std::string_view name(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::infiniband:
      return "InfiniBand";
    case LinkLayer::ethernet:
      return "Ethernet";
    case LinkLayer::unknown:
      break;
  }
  return "unknown";
}

std::string_view name(Origin origin) noexcept {
  switch (origin) {
    case Origin::hwloc_xml:
      return "hwloc-xml";
    case Origin::nccl_xml:
      return "nccl-xml";
    case Origin::weft:
      return "weft";
    case Origin::live:
      break;
  }
  return "live";
}

std::optional<PciAddress> Model::address_of(const Gpu& gpu) const {
  return gpu.pci == kNone ? std::nullopt : pci[static_cast<std::size_t>(gpu.pci)].address;
}

std::optional<PciAddress> Model::address_of(const Nic& nic) const {
  return nic.pci == kNone ? std::nullopt : pci[static_cast<std::size_t>(nic.pci)].address;
}

int Model::numa_of(int node) const {
  for (; node != kNone; node = pci[static_cast<std::size_t>(node)].parent)
    if (pci[static_cast<std::size_t>(node)].numa != kNone)
      return pci[static_cast<std::size_t>(node)].numa;
  return kNone;
}

int Model::numa_of(const Nic& nic) const { return nic.numa != kNone ? nic.numa : numa_of(nic.pci); }

int Model::sole_numa() const {
  int found = kNone;
  for (const NumaNode& node : numa) {
    if (node.cpus.empty() || node.memory != MemoryKind::ordinary) continue;
    if (found != kNone) return kNone;
    found = node.number;
  }
  return found;
}

int Model::package_of(int number) const {
  for (const NumaNode& node : numa)
    if (node.number == number) return node.package;
  return kNone;
}

std::vector<int> Model::numa_of_cpus(const std::vector<int>& cpus) const {
  std::vector<int> found;
  for (const NumaNode& node : numa)
    if (node.memory == MemoryKind::ordinary && overlap(cpus, node.cpus))
      found.push_back(node.number);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace weft::topology
