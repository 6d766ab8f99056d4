// A checkpoint: a folder with a file for each server, and a manifest that makes it one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pslib/checkpoint/shard_file.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

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

/// "<tensor>/<first element>", and "/state<k>" behind it.
std::string array_name(const std::string& tensor, std::int64_t first);
std::string array_name(const std::string& tensor, std::int64_t first, std::size_t state);

std::filesystem::path version_folder(const std::filesystem::path& folder, std::uint64_t version);
std::filesystem::path shard_path(const std::filesystem::path& folder, std::uint64_t version,
                                 std::size_t server, std::size_t servers);

/// The last step of a server's part: writes the manifest if every server's file is there. Servers
/// that do so at the same time write the same. Throws Error: system, mismatch (a file is not one).
void seal_checkpoint(const std::filesystem::path& folder, const Manifest& manifest,
                     std::size_t server, std::size_t servers, const Failpoint& failpoint = {});

/// One that is whole. Immutable; thread-safety: any thread.
class Checkpoint {
 public:
  /// Reads all of it. Throws Error: mismatch with file and offset, system.
  Checkpoint(const std::filesystem::path& folder, std::uint64_t version);

  const Manifest& manifest() const noexcept { return manifest_; }
  /// One for each server that saved.
  std::span<const ShardFile> files() const noexcept { return files_; }
  /// Elements of a tensor's values (no state) or of a state, from whichever files have them. Throws
  /// Error: mismatch (they are in none), system.
  void read(const std::string& tensor, std::optional<std::size_t> state, std::int64_t first,
            std::span<float> to) const;

 private:
  void read_manifest(const std::filesystem::path& at);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<ShardFile> files_;
};

/// The newest that is whole; nullopt: there is none. `refused` learns of every newer one that is
/// not: its version and why.
std::optional<Checkpoint> newest_checkpoint(
    const std::filesystem::path& folder,
    const std::function<void(std::uint64_t version, const Error& why)>& refused);

/// Before a job writes: moves what is newer than `version`, or has no manifest, out of the way, as
/// "<version>.refused". Throws Error(system).
void set_aside_newer(const std::filesystem::path& folder, std::optional<std::uint64_t> version);

}  // namespace weft::pslib
