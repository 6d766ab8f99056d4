// A dense table's checkpoints: finding the one to start from, and saving shards.
#pragma once

#include <memory>

#include "pslib/optimizer/updater.hpp"
#include "pslib/table/description.hpp"
#include "pslib/table/start.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// find_start() of start.hpp for a dense table; its first server prepares.
std::shared_ptr<const Checkpoint> find_start(World& world, const Description& table,
                                             Agreement& agreement, Deadline deadline);

/// Restores values and optimizer states of `piece`, a piece of a shard's region. Throws Error:
/// mismatch, system.
void restore_piece(const Checkpoint& from, const Description& table, const ShardPiece& piece,
                   float* parameters, Updater& updater);

/// The checkpointer of the shard whose home is server `home`; null if the table is not saved.
std::unique_ptr<Checkpointer> make_checkpointer(World& world, const Description& table, int home);

/// Saves the shard if the options ask for `version`. Returns once the shard is copied. Errors:
/// exhausted.
Status save_shard(Checkpointer& to, const Description& table, int home, std::uint64_t version,
                  const float* parameters, Updater& updater) noexcept;

}  // namespace weft::pslib
