// The differences between two machines that should be alike.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

struct Difference {
  bool alike = true;
  std::string text;  ///< one line per difference, with the values of both sides
};

/// Devices are matched by PCI address; several NICs at one address also by RDMA name. Compares NUMA
/// nodes, GPUs and NICs: links, rates, NUMA nodes, whether a NIC can be used, and the NIC that each
/// GPU gets.
Difference difference(const View& a, const View& b);

}  // namespace weft::topology::render
