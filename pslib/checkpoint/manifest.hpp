// A checkpoint's manifest, and the names of its files.
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

/// Description of a sparse table's rows; docs/pslib.md explains the fields.
struct SavedRows {
  std::uint64_t dim = 0;
  std::uint64_t seed = 0;
  float spread = 0.0F;
  std::uint64_t admit_after = 0;
  std::uint64_t expire_after = 0;
};

/// A variable of a dataflow graph.
struct SavedVariable {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// A checkpoint's metadata.
struct Manifest {
  std::uint64_t version = 0;
  std::uint64_t updates = 0;  ///< applications of the rule
  std::string rule;           ///< name of the rule
  std::size_t states = 0;
  std::vector<TensorSpec> tensors;
  std::optional<SavedRows> rows{};  ///< of a sparse table, which has no tensors
  /// A graph's, by name. It has no tensors, and `version` counts steps.
  std::optional<std::vector<SavedVariable>> variables{};
};

struct ListedFile {
  std::string name;
  FileSeal seal;
};

/// Name of a version's folder (20 digits), and of a server's file in it.
std::string version_name(std::uint64_t version);
std::string shard_name(std::size_t server, std::size_t servers);
/// The version of a folder's name; nullopt for any other name.
std::optional<std::uint64_t> version_of(const std::string& name);

/// The text of a manifest file.
std::string manifest_text(const Manifest& manifest, std::span<const ListedFile> files);

struct ReadManifest {
  Manifest manifest;
  std::vector<ListedFile> files;
};

/// Reads and checks a manifest; the listed files are known to have the expected names. Throws
/// Error: mismatch with the defect, system.
ReadManifest read_manifest(const os::Fd& file, const std::filesystem::path& at);

}  // namespace weft::pslib
