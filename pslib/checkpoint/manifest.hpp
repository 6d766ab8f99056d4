// What a checkpoint says of itself, and how its files are called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/os/folder.hpp"
#include "pslib/checkpoint/shard_file.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

inline constexpr const char* kManifestName = "manifest.json";

/// What a sparse table's rows are; docs/pslib.md has the meaning.
struct SavedRows {
  std::uint64_t dim = 0;
  std::uint64_t seed = 0;
  float spread = 0.0F;
  std::uint64_t admit_after = 0;
  std::uint64_t expire_after = 0;
};

/// What a table's checkpoint says besides values.
struct Manifest {
  std::uint64_t version = 0;
  std::uint64_t updates = 0;  ///< times that the rule was applied
  std::string rule;           ///< its name
  std::size_t states = 0;
  std::vector<TensorSpec> tensors;
  std::optional<SavedRows> rows{};  ///< a sparse table's, in place of tensors
};

struct ListedFile {
  std::string name;
  FileSeal seal;
};

/// The folder of a version, 20 digits, and a server's file in it.
std::string version_name(std::uint64_t version);
std::string shard_name(std::size_t server, std::size_t servers);
/// None for a name that is not a version's folder's.
std::optional<std::uint64_t> version_of(const std::string& name);

/// A manifest's text.
std::string manifest_text(const Manifest& manifest, std::span<const ListedFile> files);

struct ReadManifest {
  Manifest manifest;
  std::vector<ListedFile> files;
};

/// Throws Error: mismatch with what of the file is wrong, system. Its files' names are what they
/// must be.
ReadManifest read_manifest(const os::Fd& file, const std::filesystem::path& at);

}  // namespace weft::pslib
