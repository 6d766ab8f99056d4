// What of a table's checkpoints goes, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/os/folder.hpp"

namespace weft::pslib {

// All of it throws Error(system). A folder gets another name before it is emptied, so that half of
// one is never taken for a checkpoint.

/// Before a job writes: moves what is newer than `version`, or has no manifest, out of the way, as
/// "<version>.refused".
void set_aside_newer(const os::Folder& table, std::optional<std::uint64_t> version);

/// Removes a version of which a part can't be written: it will never be whole.
void discard(const os::Folder& table, std::uint64_t version);

/// Removes all that is older than the newest `keep` checkpoints with a manifest, unfinished and
/// refused ones too, but none that somebody reads.
void keep_newest(const os::Folder& table, std::size_t keep);

/// Removes what a process left that died while it removed something.
void remove_leftovers(const os::Folder& table);

}  // namespace weft::pslib
