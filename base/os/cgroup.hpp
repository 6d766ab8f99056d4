// The control groups that limit this process.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace weft::os {

/// The folders of the groups that this process is in as far as they may limit `controller` ("cpu",
/// "memory"): of the unified hierarchy and of the controller's own one of version 1, its own group
/// first and each group's parent after it, up to what is mounted here. Empty when there are none.
/// `root` is where the file system begins (tests).
std::vector<std::filesystem::path> own_cgroups(std::string_view controller,
                                               const std::filesystem::path& root = "/");

}  // namespace weft::os
