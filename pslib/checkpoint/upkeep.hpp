// Removal of checkpoints that are old, unfinished or superseded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/os/folder.hpp"

namespace weft::pslib {

// All functions throw Error(system). A folder is renamed before it is emptied, so that a
// half-removed one is never taken for a checkpoint.

/// Renames versions newer than `version`, and versions without a manifest, to "<version>.refused".
/// Call before a job writes.
void set_aside_newer(const os::Folder& table, std::optional<std::uint64_t> version);

/// Removes a version that will never be complete because a part can't be written.
void discard(const os::Folder& table, std::uint64_t version);

/// Removes everything older than the newest `keep` checkpoints with a manifest, including
/// unfinished and refused versions, except checkpoints that a process reads.
void keep_newest(const os::Folder& table, std::size_t keep);

/// Removes what a process left that died during a removal.
void remove_leftovers(const os::Folder& table);

}  // namespace weft::pslib
