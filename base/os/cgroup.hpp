// The control groups that limit this process.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace weft::os {

/// The folders of the cgroups that may limit `controller` ("cpu", "memory") for this process, from
/// the unified hierarchy and from the controller's own version 1 hierarchy: the process's own group
/// first, then each parent, up to what is mounted here. Empty if there are none. `root` is the root
/// of the file system (tests).
std::vector<std::filesystem::path> own_cgroups(std::string_view controller,
                                               const std::filesystem::path& root = "/");

}  // namespace weft::os
