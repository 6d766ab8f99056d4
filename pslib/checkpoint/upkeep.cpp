#include "pslib/checkpoint/upkeep.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "pslib/checkpoint/manifest.hpp"
#include "weft/error.hpp"

namespace weft::pslib {
namespace {

constexpr std::string_view kRefused = ".refused";
constexpr std::string_view kRemoved = ".removed";

/// A version's folder or one set aside; its manifest may be missing.
struct Known {
  std::string name;
  std::uint64_t version = 0;
  bool is_refused = false;
  bool has_manifest = false;
};

bool has_manifest(const os::Folder& table, const std::string& name) {
  try {
    const auto folder = table.find(name);
    return folder && folder->has(kManifestName);
  } catch (const Error&) {
    return false;  // such as a link, or another user's folder
  }
}

std::vector<Known> known_in(const os::Folder& table) {
  std::vector<Known> all;
  for (const std::string& name : table.names()) {
    const bool refused = name.ends_with(kRefused);
    const auto version = version_of(refused ? name.substr(0, name.size() - kRefused.size()) : name);
    if (version) all.push_back({name, *version, refused, !refused && has_manifest(table, name)});
  }
  return all;
}

void remove_folder(const os::Folder& table, const std::string& name) {
  const std::string removed = fmt::format("{}.{}{}", name, os::random_digits(), kRemoved);
  if (table.rename(name, removed)) table.remove(removed);
}

/// True while a Checkpoint object for it exists in any process. `lock` prevents new ones while it
/// is held.
bool is_read(const os::Folder& table, const std::string& name, os::Fd& lock) {
  const auto folder = table.find(name);
  if (!folder) return false;
  // NFS requires a file opened for writing to lock it exclusively.
  lock =
      os::Fd(::openat(folder->fd(), kManifestName, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

void set_aside_newer(const os::Folder& table, std::optional<std::uint64_t> version) {
  for (const Known& found : known_in(table)) {
    if (found.is_refused || (version && found.version <= *version && found.has_manifest)) continue;
    const std::string aside = found.name + std::string(kRefused);
    remove_folder(table, aside);
    table.rename(found.name, aside);
  }
}

void discard(const os::Folder& table, std::uint64_t version) {
  remove_folder(table, version_name(version));
}

void keep_newest(const os::Folder& table, std::size_t keep) {
  const std::vector<Known> all = known_in(table);
  std::vector<std::uint64_t> whole;
  for (const Known& each : all)
    if (each.has_manifest) whole.push_back(each.version);
  if (whole.size() < keep || keep == 0) return;
  std::ranges::sort(whole, std::ranges::greater{});
  for (const Known& each : all) {
    os::Fd lock;
    if (each.version < whole[keep - 1] && !(each.has_manifest && is_read(table, each.name, lock)))
      remove_folder(table, each.name);
  }
}

void remove_leftovers(const os::Folder& table) {
  for (const std::string& name : table.names())
    if (name.ends_with(kRemoved)) table.remove(name);
}

}  // namespace weft::pslib
