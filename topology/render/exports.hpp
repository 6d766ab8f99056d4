// A machine in the formats of others.
#pragma once

#include <string>

#include "topology/render/view.hpp"

namespace weft::topology::render {

/// NCCL's topology XML (NCCL_TOPO_FILE). Imported again it gives the same choices: NICs that can't
/// be used are left out, and what lies below one host bridge is one <cpu>. The format knows neither
/// packages nor memory of GPUs, and no states of ports.
std::string as_nccl_xml(const View& view);

/// Mooncake's topology matrix: for each NUMA node ("cpu:0") and GPU ("cuda:0") the NICs to prefer
/// and the others that may be used.
std::string as_mooncake(const View& view);

/// Graphviz.
std::string as_dot(const View& view);

}  // namespace weft::topology::render
