// The kinds of files that are understood.
#pragma once

#include <string>
#include <string_view>

#include "topology/import/xml.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

/// Of a root element <topology>. All of these throw Error(bad_argument) with file and line, and
/// return a model that is not finished.
Model read_hwloc(const XmlElement& root, const std::string& name);
/// Of a root element <system>.
Model read_nccl(const XmlElement& root, const std::string& name);
/// Of JSON with "schema": "weft-topo/1".
Model read_weft_json(std::string_view text, const std::string& name);

}  // namespace weft::topology
