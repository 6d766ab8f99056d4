#include "pslib/table/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "pslib/optimizer/rules.hpp"

namespace weft::pslib {
namespace {

Manifest manifest_of(const Description& table, std::uint64_t version, std::uint64_t updates) {
  return {.version = version,
          .updates = updates,
          .rule = rule_name(table.options.optimizer),
          .states = states(table.options.optimizer),
          .tensors = table.specs};
}

}  // namespace

std::shared_ptr<const Checkpoint> find_start(World& world, const Description& table,
                                             Agreement& agreement, Deadline deadline) {
  return find_start(world, table.options.checkpoint, table.table,
                    {table.roles.rank == table.roles.servers.front(), table.roles.serves()},
                    manifest_of(table, 0, 0), agreement, deadline);
}

void restore_piece(const Checkpoint& from, const Description& table, const ShardPiece& piece,
                   float* parameters, Updater& updater) {
  const std::string& name = table.specs[piece.tensor].name;
  const auto count = static_cast<std::size_t>(piece.count);
  from.read(name, std::nullopt, piece.first, {parameters + piece.shard_offset, count});
  for (std::size_t i = 0; i < states(table.options.optimizer); ++i)
    from.read(name, i, piece.first, {updater.state(i) + piece.shard_offset, count});
  updater.resume(from.manifest().updates);
}

std::unique_ptr<Checkpointer> make_checkpointer(World& world, const Description& table, int home) {
  const auto shard = std::ranges::find(table.homes, home) - table.homes.begin();
  return make_checkpointer(world, table.options.checkpoint, table.table,
                           static_cast<std::size_t>(shard), table.homes.size());
}

namespace {

std::vector<StoredArray> arrays_of(const Description& table, int home, const float* parameters,
                                   Updater& updater) {
  std::vector<StoredArray> arrays;
  for (const ShardPiece& piece : table.pieces) {
    if (piece.server != home) continue;
    const std::string& name = table.specs[piece.tensor].name;
    const auto count = static_cast<std::size_t>(piece.count);
    arrays.push_back({array_name(name, piece.first), {parameters + piece.shard_offset, count}});
    for (std::size_t i = 0; i < states(table.options.optimizer); ++i)
      arrays.push_back(
          {array_name(name, piece.first, i), {updater.state(i) + piece.shard_offset, count}});
  }
  return arrays;
}

}  // namespace

Status save_shard(Checkpointer& to, const Description& table, int home, std::uint64_t version,
                  const float* parameters, Updater& updater) noexcept {
  if (version % table.options.checkpoint.every != 0) return {};
  try {
    to.save(manifest_of(table, version, updater.updates()),
            arrays_of(table, home, parameters, updater));
  } catch (const std::exception& error) {
    return refuse(Code::exhausted, [&] {
      return error_detail(Code::exhausted, "checkpoint", error.what(),
                          "a checkpoint takes as much memory as the shard and its states");
    });
  }
  return {};
}

}  // namespace weft::pslib
