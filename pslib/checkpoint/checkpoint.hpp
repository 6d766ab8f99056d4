// A checkpoint: a folder with one file per server and the manifest that completes it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/os/folder.hpp"
#include "pslib/checkpoint/manifest.hpp"
#include "pslib/checkpoint/shard_file.hpp"

namespace weft::pslib {

/// "<tensor>/<first element>", with "/state<k>" appended for a state.
std::string array_name(const std::string& tensor, std::int64_t first);
std::string array_name(const std::string& tensor, std::int64_t first, std::size_t state);

/// The last step of a server's part: writes the manifest if every server's file is there. Returns
/// true if it did. Servers that do so concurrently write identical manifests. `version` is the
/// version's folder within `table`. Throws Error: system, mismatch (a file is not a shard file).
bool seal_checkpoint(const os::Folder& table, const os::Folder& version, const Manifest& manifest,
                     std::size_t servers, const Failpoint& failpoint = {});

/// A checkpoint whose manifest, file headers and list of arrays are complete; its values are still
/// to be verified. No job removes a checkpoint while an object for it exists. Immutable; any
/// thread.
class Checkpoint {
 public:
  /// Opens a checkpoint without reading values. Throws Error: mismatch with file and offset,
  /// system.
  Checkpoint(const os::Folder& table, std::uint64_t version);

  const Manifest& manifest() const noexcept { return manifest_; }
  /// One per server that saved, in the order of servers.
  std::span<const ShardFile> files() const noexcept { return files_; }
  /// Reads and verifies part `part` of `parts` of the values; parts have about equal size. Throws
  /// Error: mismatch with file and offset, system.
  void verify(std::size_t part, std::size_t parts) const;
  /// Reads elements from `first` on of a tensor's values (`state` empty) or of one of its states,
  /// from the files that contain them, and verifies the blocks read. Throws Error: mismatch (also
  /// if there is no such array), system.
  void read(const std::string& tensor, std::optional<std::size_t> state, std::int64_t first,
            std::span<float> to) const;
  /// The same for all bytes of a graph's variable.
  void read_variable(const std::string& name, std::span<std::byte> to) const;

 private:
  struct Run {
    const ShardFile* file;
    const ShardFile::Entry* entry;
  };
  /// Keyed by first element.
  using Runs = std::map<std::int64_t, Run>;

  void open_files(const os::Folder& folder, std::span<const ListedFile> listed);
  void index_runs();
  void check_runs() const;
  void check_rows() const;
  void index_variables();

  std::filesystem::path at_;  // path of the manifest
  os::Fd lock_;               // the manifest, with a shared lock that prevents removal
  Manifest manifest_;
  std::vector<ShardFile> files_;
  /// Keyed by tensor, then state (empty for the values).
  std::map<std::pair<std::string, std::optional<std::size_t>>, Runs> runs_;
  std::map<std::string, Run> variables_;
};

/// Limits a search for a checkpoint.
struct Search {
  std::uint64_t newest = std::numeric_limits<std::uint64_t>::max();  ///< skip versions above it
  /// The part of the values to verify; other ranks may verify the rest.
  std::size_t part = 0;
  std::size_t parts = 1;
  /// If set, a checkpoint whose manifest it rejects is returned without verifying its values.
  std::function<bool(const Manifest&)> is_wanted{};
};

/// Called for every checkpoint that is skipped, with the reason. `by_all` is true if every rank
/// sees the defect, whatever part of the values it verifies.
using Refused = std::function<void(std::uint64_t version, const Error& why, bool by_all)>;

/// The newest checkpoint that is complete as far as `search` verifies; nullopt if there is none.
/// Throws Error(system) if the folder can't be read.
std::optional<Checkpoint> newest_checkpoint(const os::Folder& table, const Refused& refused,
                                            const Search& search = {});

}  // namespace weft::pslib
