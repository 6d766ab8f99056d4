#include "base/os/file_names.hpp"

#include <dirent.h>

#include <memory>
#include <string_view>

namespace weft::os {

std::vector<std::string> file_names(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  while (folder) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

}  // namespace weft::os
