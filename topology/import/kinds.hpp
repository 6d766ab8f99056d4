// Readers of the supported file formats.
#pragma once

#include <string>
#include <string_view>

#include "topology/import/xml.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

/// Reads a root element <topology>. All of these functions throw Error(bad_argument), which names
/// file and line, and return a model without finish().
Model read_hwloc(const XmlElement& root, const std::string& name);
/// Reads a root element <system>.
Model read_nccl(const XmlElement& root, const std::string& name);
/// Reads JSON with "schema": "weft-topo/1".
Model read_weft_json(std::string_view text, const std::string& name);

}  // namespace weft::topology
