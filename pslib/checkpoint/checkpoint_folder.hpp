// Locates the folder of a table's checkpoints.
#pragma once

#include <optional>
#include <string>

#include "base/os/folder.hpp"
#include "weft/checkpoint.hpp"

namespace weft::pslib {

/// The folder of a table's checkpoints. make_folder() creates it if necessary; find_folder()
/// returns nullopt if it is missing. No symbolic link below CheckpointOptions::folder is followed.
/// Throws Error(system).
os::Folder make_folder(const CheckpointOptions& options, const std::string& table);
std::optional<os::Folder> find_folder(const CheckpointOptions& options, const std::string& table);

}  // namespace weft::pslib
