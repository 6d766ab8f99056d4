// Reads a machine from a file of hwloc (XML), NCCL (topology XML) or weft-topo (JSON).
#pragma once

#include <string>
#include <string_view>

#include "topology/model/model.hpp"

namespace weft::topology {

/// The file, whatever its kind. Throws Error(bad_argument) which says file, line and what is wrong,
/// or Error(system) where it can't be read. "-": standard input.
Model import_file(const std::string& path);

/// The same, of text; `name` stands for the file in messages.
Model import_text(std::string_view text, const std::string& name);

}  // namespace weft::topology
