// A machine with everything left out that joins no GPU and no NIC: what pictures and exports show.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/model/model.hpp"

namespace weft::topology::render {

enum class Part : std::uint8_t { machine, package, numa, host_bridge, pci_switch, gpu, nic };

/// A tree. Ports of one PCI switch are one pci_switch, so that two devices have one switch between
/// them exactly where their path class is PIX.
struct Outline {
  Part part = Part::machine;
  /// Of a package or NUMA node its number by the operating system, of a host bridge or switch its
  /// index in Model::pci, of a GPU or NIC in Model::gpus or nics. kNone: not known.
  int index = kNone;
  /// The narrowest link from here to the parent; not known above host bridges.
  Link link{};
  std::vector<Outline> children{};
};

/// Children are in the order of packages, NUMA nodes and PCI addresses. A NUMA node of processors
/// without devices is there, memory alone is not. A NUMA node whose package is not
/// known is a child of the machine.
Outline outline(const Model& model);

}  // namespace weft::topology::render
