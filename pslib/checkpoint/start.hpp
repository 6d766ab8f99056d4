// What a table starts from.
#pragma once

#include <memory>
#include <string>

#include "pslib/checkpoint/checkpoint.hpp"
#include "pslib/checkpoint/checkpointer.hpp"
#include "weft/checkpoint.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Where a table's checkpoints lie.
std::filesystem::path folder_of(const CheckpointOptions& options, const std::string& table);

/// For every rank before it agrees with the others: the newest checkpoint that is whole, if the
/// table wants one; null if there is none. The rank that `prepares` sets aside what is newer.
/// Throws Error: mismatch (it is not a table's like `here`, whatever its version), system.
std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, bool prepares,
                                             const Manifest& here);

/// Of shard `shard` of `shards`; what goes wrong is a line in the log. Null for a table that is not
/// saved.
std::unique_ptr<Checkpointer> make_checkpointer(World& world, const CheckpointOptions& options,
                                                const std::string& table, std::size_t shard,
                                                std::size_t shards);

}  // namespace weft::pslib
