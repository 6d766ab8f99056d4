// What two machines that should be alike differ in.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

struct Difference {
  bool alike = true;
  std::string text;  ///< a line for each difference, both sides' values in it
};

/// Devices are matched by PCI address; several NICs at one address by RDMA name too. Compared: NUMA
/// nodes, GPUs, NICs, their links, rates and places, whether a NIC can be used, and what every GPU
/// gets.
Difference difference(const View& a, const View& b);

}  // namespace weft::topology::render
