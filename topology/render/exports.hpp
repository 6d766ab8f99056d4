// Writes a machine in formats of other tools.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

/// NCCL's topology XML (NCCL_TOPO_FILE). Importing it gives the same choices: unusable NICs are
/// omitted, and each host bridge becomes one <cpu>. The format has no packages, no GPU memory and
/// no port states.
std::string as_nccl_xml(const View& view);

/// Mooncake's topology matrix: for each NUMA node ("cpu:0") and GPU ("cuda:0"), the preferred NICs
/// and the other usable NICs.
std::string as_mooncake(const View& view);

/// Graphviz.
std::string as_dot(const View& view);

}  // namespace weft::topology::render
