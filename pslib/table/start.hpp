// Finds the checkpoint that a table starts from.
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

/// A rank's part in the checkpoints to come.
struct CheckpointPart {
  bool prepares = false;  ///< it moves newer checkpoints aside; one rank does
  bool writes = false;    ///< a shard of each
};

/// The newest complete checkpoint if the table asks for one; null if there is none. Collective,
/// after all ranks have agreed on the table. Each rank verifies its share of the values. Throws
/// Error on every rank: mismatch (the checkpoint's table differs from `here` in more than its
/// version; a rank that writes has another folder), system, and the error of a rank that ends.
std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, CheckpointPart part,
                                             const Manifest& here, Agreement& agreement,
                                             Deadline deadline);

/// A line of the table's contract: whether it starts from a checkpoint.
std::string start_text(const CheckpointOptions& options);

/// The checkpointer of shard `shard` of `shards`, which logs its failures; null if the table is not
/// saved.
std::unique_ptr<Checkpointer> make_checkpointer(World& world, const CheckpointOptions& options,
                                                const std::string& table, std::size_t shard,
                                                std::size_t shards);

}  // namespace weft::pslib
