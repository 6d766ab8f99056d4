// The names in a folder.
#pragma once

#include <string>
#include <vector>

namespace weft::os {

/// The names in the folder at `path` without "." and "..", unsorted; none if the folder can't be
/// read. In place of std::filesystem's iterators, whose libstdc++ ends the process when memory runs
/// out. Throws std::bad_alloc.
std::vector<std::string> file_names(const std::string& path);

}  // namespace weft::os
