#include "pslib/checkpoint/checkpoint_folder.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft::pslib {
namespace {

// A table's name may have several parts, like a path: "embeddings/users".
std::vector<std::string> parts_of(const std::string& table) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= table.size();) {
    const std::size_t end = std::min(table.find('/', from), table.size());
    parts.push_back(table.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

}  // namespace

os::Folder make_folder(const CheckpointOptions& options, const std::string& table) {
  os::Folder folder = os::Folder::make(options.folder, "checkpoint");
  for (const std::string& part : parts_of(table)) folder = folder.make_below(part);
  return folder;
}

std::optional<os::Folder> find_folder(const CheckpointOptions& options, const std::string& table) {
  auto folder = os::Folder::find_at(options.folder, "restore");
  for (const std::string& part : parts_of(table))
    if (folder) folder = folder->find(part);
  return folder;
}

}  // namespace weft::pslib
