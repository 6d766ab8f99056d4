// Reads a machine from a file of hwloc (XML), NCCL (topology XML) or weft-topo (JSON).
#pragma once

#include <string>
#include <string_view>

#include "topology/model/model.hpp"

namespace weft::topology {

/// Reads a file of any of these kinds. "-" is standard input. Throws Error(bad_argument), which
/// names file, line and problem, or Error(system) if the file cannot be read.
Model import_file(const std::string& path);

/// The same for the contents of a file; `name` stands for the file in messages.
Model import_text(std::string_view text, const std::string& name);

}  // namespace weft::topology
