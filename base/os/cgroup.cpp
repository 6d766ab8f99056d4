#include "base/os/cgroup.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace weft::os {
namespace {

namespace fs = std::filesystem;

/// True if `word` is an item of the comma-separated `items`.
bool has_item(std::string_view items, std::string_view word) {
  while (!items.empty()) {
    const auto end = items.find(',');
    if (items.substr(0, end) == word) return true;
    items = end == items.npos ? std::string_view{} : items.substr(end + 1);
  }
  return false;
}

/// The mount of a hierarchy: cgroup `group` is visible at `folder`.
struct Mount {
  fs::path group;
  fs::path folder;
};

/// Finds the unified hierarchy (no controller) or the version 1 hierarchy of `controller`.
std::optional<Mount> find_mount(std::string_view controller, const fs::path& root) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // id parent device group folder options [tags...] - type source options
    const auto separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream left(line);
    std::istringstream right(line.substr(separator + 3));
    std::string skipped, group, folder, type, options;
    left >> skipped >> skipped >> skipped >> group >> folder;
    right >> type >> skipped >> options;
    const bool matches =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && has_item(options, controller);
    if (matches) return Mount{group, folder};
  }
  return std::nullopt;
}

/// The folder of `group` below the mount's. A group outside the mounted tree (seen from another
/// namespace) counts as the mounted group itself.
fs::path folder_of(const Mount& mount, const fs::path& group, const fs::path& root) {
  const auto below = group.lexically_relative(mount.group);
  auto top = root / mount.folder.relative_path();
  if (below.empty() || below == "." || *below.begin() == "..") return top;
  return top / below;
}

}  // namespace

std::vector<fs::path> own_cgroups(std::string_view controller, const fs::path& root) {
  std::vector<fs::path> folders;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    // id:controllers:group; the unified hierarchy names no controllers
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_item(controllers, controller)) continue;
    const auto mount = find_mount(controllers.empty() ? std::string_view{} : controller, root);
    if (!mount) continue;
    const auto top = folder_of(*mount, mount->group, root);
    auto folder = folder_of(*mount, line.substr(second + 1), root);
    for (; folder != top; folder = folder.parent_path()) folders.push_back(folder);
    folders.push_back(top);
  }
  return folders;
}

}  // namespace weft::os
