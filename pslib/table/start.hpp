// What a table starts from.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pslib/checkpoint/checkpoint.hpp"
#include "pslib/checkpoint/checkpoint_folder.hpp"
#include "pslib/checkpoint/checkpointer.hpp"
#include "pslib/table/agreement.hpp"
#include "weft/checkpoint.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Collective, once all ranks have agreed on the table: the newest checkpoint that is whole, if the
/// table wants one; null if there is none. Each rank verifies its part of the values. The rank that
/// `prepares` sets aside what is newer. Throws Error, on every rank: mismatch (it is not a table's
/// like `here`, whatever its version), system; what a rank's end brings.
std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, bool prepares,
                                             const Manifest& here, Agreement& agreement,
                                             Deadline deadline);

/// A line of the table's contract: whether it does that.
std::string start_text(const CheckpointOptions& options);

/// Of shard `shard` of `shards`; what goes wrong is a line in the log. Null for a table that is not
/// saved.
std::unique_ptr<Checkpointer> make_checkpointer(World& world, const CheckpointOptions& options,
                                                const std::string& table, std::size_t shard,
                                                std::size_t shards);

}  // namespace weft::pslib
