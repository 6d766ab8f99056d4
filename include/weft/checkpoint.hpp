// Where and how often a table is saved.
#pragma once

#include <cstdint>
#include <string>

namespace weft::pslib {

/// docs/pslib.md has the format. Files are made with mode 0600, folders with 0700.
struct CheckpointOptions {
  /// A folder that all servers and, to restore, all ranks see; empty: nothing is saved. The table's
  /// lie in a folder of its name there.
  std::string folder{};
  /// Every so-many-th version is saved, by a thread of each server. It writes a dense table's shard
  /// from a copy of it (that is the memory it takes), a sparse one's as it lies, from copies of
  /// those rows alone that are updated meanwhile. 0: none is.
  std::uint64_t every = 0;
  /// Goes on from the newest checkpoint that is whole, with any number of servers; without one, as
  /// a new table. Damaged ones are passed over, with a line in the log.
  bool restore = true;
  /// Once a checkpoint is whole, all but the newest `keep` of the table are removed, and with them
  /// what was never finished or was set aside before them. One that a job is reading stays. 0: all
  /// stay. Three: one to go on from, and two before it should that one be damaged.
  std::uint64_t keep = 3;
};

}  // namespace weft::pslib
