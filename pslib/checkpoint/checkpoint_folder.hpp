// Where a table's checkpoints lie.
#pragma once

#include <optional>
#include <string>

#include "base/os/folder.hpp"
#include "weft/checkpoint.hpp"

namespace weft::pslib {

/// The folder in which a table's checkpoints lie: made, or found (none if it is missing). Below
/// CheckpointOptions::folder no link is followed. Throws Error(system).
os::Folder make_folder(const CheckpointOptions& options, const std::string& table);
std::optional<os::Folder> find_folder(const CheckpointOptions& options, const std::string& table);

}  // namespace weft::pslib
