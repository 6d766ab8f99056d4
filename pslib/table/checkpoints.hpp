// A dense table's checkpoints: what it starts from, and what a shard saves.
#pragma once

#include <memory>

#include "pslib/optimizer/updater.hpp"
#include "pslib/table/description.hpp"
#include "pslib/table/start.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// The same for a dense table; its first server prepares.
std::shared_ptr<const Checkpoint> find_start(World& world, const Description& table,
                                             Agreement& agreement, Deadline deadline);

/// Values and states of a piece of a shard's region. Throws Error: mismatch, system.
void restore_piece(const Checkpoint& from, const Description& table, const ShardPiece& piece,
                   float* parameters, Updater& updater);

/// Of the shard that is at home at `home`. Null for a table that is not saved.
std::unique_ptr<Checkpointer> make_checkpointer(World& world, const Description& table, int home);

/// The shard at `version`, if that is to be saved. Returns once it is copied. Errors: exhausted.
Status save_shard(Checkpointer& to, const Description& table, int home, std::uint64_t version,
                  const float* parameters, Updater& updater) noexcept;

}  // namespace weft::pslib
