// A checkpoint: a folder with a file for each server, and a manifest that makes it one.
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

/// "<tensor>/<first element>", and "/state<k>" behind it.
std::string array_name(const std::string& tensor, std::int64_t first);
std::string array_name(const std::string& tensor, std::int64_t first, std::size_t state);

/// The last step of a server's part: writes the manifest if every server's file is there, and
/// returns whether it did. Servers that do so at the same time write the same. `version` is the
/// version's folder within `table`. Throws Error: system, mismatch (a file is not one).
bool seal_checkpoint(const os::Folder& table, const os::Folder& version, const Manifest& manifest,
                     std::size_t servers, const Failpoint& failpoint = {});

/// One that may be whole: its manifest, the headers of its files, and arrays for all that the
/// manifest speaks of. While it is there no job removes it. Immutable; thread-safety: any thread.
class Checkpoint {
 public:
  /// Reads no values. Throws Error: mismatch with file and offset, system.
  Checkpoint(const os::Folder& table, std::uint64_t version);

  const Manifest& manifest() const noexcept { return manifest_; }
  /// One for each server that saved, in their order.
  std::span<const ShardFile> files() const noexcept { return files_; }
  /// Reads and checks the values' part number `part` of `parts` of about equal size. Throws Error:
  /// mismatch with file and offset, system.
  void verify(std::size_t part, std::size_t parts) const;
  /// Elements of a tensor's values (no state) or of a state, from whichever files have them; what
  /// is read is checked. Throws Error: mismatch (or there are none of that name), system.
  void read(const std::string& tensor, std::optional<std::size_t> state, std::int64_t first,
            std::span<float> to) const;

 private:
  struct Run {
    const ShardFile* file;
    const ShardFile::Entry* entry;
  };
  /// By first element.
  using Runs = std::map<std::int64_t, Run>;

  void open_files(const os::Folder& folder, std::span<const ListedFile> listed);
  void index_runs();
  void check_runs() const;
  void check_rows() const;

  std::filesystem::path at_;  // the manifest
  os::Fd lock_;               // it, open: shared, so that it is not removed
  Manifest manifest_;
  std::vector<ShardFile> files_;
  /// By tensor, then none or state.
  std::map<std::pair<std::string, std::optional<std::size_t>>, Runs> runs_;
};

/// Which checkpoints to look at, and how much of them.
struct Search {
  std::uint64_t newest = std::numeric_limits<std::uint64_t>::max();  ///< none above it
  /// The part of the values that is verified: others may do the rest.
  std::size_t part = 0;
  std::size_t parts = 1;
  /// False: its values are not worth verifying, it is taken as it is. Empty: all are.
  std::function<bool(const Manifest&)> is_wanted{};
};

/// Learns of every checkpoint that is passed over, and why. `by_all`: whoever looks sees it,
/// whatever his part of the values.
using Refused = std::function<void(std::uint64_t version, const Error& why, bool by_all)>;

/// The newest that is whole as far as is looked at; nullopt: there is none. Throws Error(system):
/// the folder can't be read.
std::optional<Checkpoint> newest_checkpoint(const os::Folder& table, const Refused& refused,
                                            const Search& search = {});

}  // namespace weft::pslib
