// Access to checkpoint folders by path, for tests.
#pragma once

#include <filesystem>

#include "pslib/checkpoint/manifest.hpp"

namespace weft::tests {

inline os::Folder folder_at(const std::filesystem::path& path) {
  return os::Folder::open(path, "checkpoint");
}

inline std::filesystem::path version_folder(const std::filesystem::path& table,
                                            std::uint64_t version) {
  return table / pslib::version_name(version);
}

inline std::filesystem::path shard_path(const std::filesystem::path& table, std::uint64_t version,
                                        std::size_t server, std::size_t servers) {
  return version_folder(table, version) / pslib::shard_name(server, servers);
}

}  // namespace weft::tests
