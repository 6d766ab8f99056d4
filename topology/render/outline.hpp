// A machine reduced to the parts that join GPUs and NICs: the input of pictures and exports.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/model/model.hpp"

namespace weft::topology::render {

enum class Part : std::uint8_t { machine, package, numa, host_bridge, pci_switch, gpu, nic };

/// A tree. The ports of a PCI switch form one pci_switch, so that two devices have exactly one
/// switch between them if and only if their path class is PIX.
struct Outline {
  Part part = Part::machine;
  /// A package or NUMA node: its number by the operating system. A host bridge or switch: its index
  /// in Model::pci. A GPU or NIC: its index in Model::gpus or Model::nics. kNone: not known.
  int index = kNone;
  /// The narrowest link from this part up to its parent; not known above host bridges.
  Link link{};
  std::vector<Outline> children{};
};

/// Children are ordered by package, NUMA node and PCI address. NUMA nodes with processors but
/// without devices are included, nodes with memory only are not. A NUMA node of unknown package is
/// a child of the machine.
Outline outline(const Model& model);

}  // namespace weft::topology::render
