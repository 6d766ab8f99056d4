// Checkpoints: where, how often and how long a table is saved.
#pragma once

#include <cstdint>
#include <string>

namespace weft::pslib {

/// How a table is saved and restored. docs/pslib.md has the format. Files get mode 0600, folders
/// 0700.
struct CheckpointOptions {
  /// A folder that all servers can reach, and all ranks if they restore. Each table has a subfolder
  /// of its name. Empty: nothing is saved, and `every` must be 0.
  std::string folder{};
  /// Save every `every`-th version, from a background thread on each server; 0 disables. A dense
  /// table's shard is copied first, which takes its size in memory. A sparse table's rows are
  /// written in place; only rows that are updated meanwhile are copied.
  std::uint64_t every = 0;
  /// Start from the newest complete checkpoint, with any number of servers; without one, as a new
  /// table. Damaged checkpoints are skipped, with one line each in the log.
  bool restore = true;
  /// After each completed checkpoint, remove all but the newest `keep` of this table, together with
  /// older unfinished and rejected ones. A checkpoint that a job is reading stays. 0 keeps all. The
  /// default of 3 leaves two spares if the newest is damaged.
  std::uint64_t keep = 3;
};

}  // namespace weft::pslib
