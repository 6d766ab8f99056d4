#include "pslib/dense/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "pslib/optimizer/rules.hpp"
#include "pslib/refusal.hpp"
#include "runtime/world_state.hpp"

namespace weft::pslib {
namespace {

std::filesystem::path folder_of(const Description& table) {
  return std::filesystem::path(table.options.checkpoint.folder) / table.table;
}

Manifest manifest_of(const Description& table, std::uint64_t version, std::uint64_t updates) {
  return {.version = version,
          .updates = updates,
          .rule = rule_name(table.options.optimizer),
          .states = states(table.options.optimizer),
          .tensors = table.specs};
}

// What a checkpoint and the table must have in common, one item a line.
std::vector<std::string> lines_of(const Manifest& manifest) {
  std::vector<std::string> lines{fmt::format("{} with {} states", manifest.rule, manifest.states)};
  for (const TensorSpec& spec : manifest.tensors)
    lines.push_back(fmt::format("tensor \"{}\" {}", spec.name, spec.shape.text()));
  return lines;
}

void check_same_table(const Description& table, const Manifest& saved) {
  const auto here = lines_of(manifest_of(table, 0, 0));
  const auto there = lines_of(saved);
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const std::string a = i < here.size() ? here[i] : "nothing";
    const std::string b = i < there.size() ? there[i] : "nothing";
    if (a != b)
      refuse_file(version_folder(folder_of(table), saved.version), 0,
                  fmt::format("another table's: it has {}, the table {}", b, a));
  }
}

}  // namespace

std::shared_ptr<const Checkpoint> find_start(World& world, const Description& table) {
  const CheckpointOptions& options = table.options.checkpoint;
  if (options.folder.empty()) return nullptr;
  const bool is_first = table.roles.rank == table.roles.servers.front();
  std::shared_ptr<const Checkpoint> found;
  if (options.restore) {
    auto newest = newest_checkpoint(folder_of(table), [&](std::uint64_t version, const Error& why) {
      if (is_first)
        WorldAccess::state(world).log->warn(Subsystem::ps, "checkpoint {} is passed over: {}",
                                            version, why.what());
    });
    if (newest) found = std::make_shared<const Checkpoint>(*std::move(newest));
  }
  if (found) check_same_table(table, found->manifest());
  if (is_first && options.every > 0) {
    std::filesystem::create_directories(folder_of(table));
    set_aside_newer(folder_of(table),
                    found ? std::optional(found->manifest().version) : std::nullopt);
  }
  return found;
}

void restore_piece(const Checkpoint& from, const Description& table, const Piece& piece,
                   float* parameters, Updater& updater) {
  const std::string& name = table.specs[piece.tensor].name;
  const auto count = static_cast<std::size_t>(piece.count);
  from.read(name, std::nullopt, piece.first, {parameters + piece.shard_offset, count});
  for (std::size_t i = 0; i < states(table.options.optimizer); ++i)
    from.read(name, i, piece.first, {updater.state(i) + piece.shard_offset, count});
  updater.resume(from.manifest().updates);
}

std::unique_ptr<Checkpointer> make_checkpointer(World& world, const Description& table, int home) {
  if (table.options.checkpoint.every == 0) return nullptr;
  const auto shard = std::ranges::find(table.homes, home) - table.homes.begin();
  return std::make_unique<Checkpointer>(
      folder_of(table), static_cast<std::size_t>(shard), table.homes.size(),
      [log = WorldAccess::state(world).log](const std::string& why) {
        log->error(Subsystem::ps, "a checkpoint was not written: {}", why);
      });
}

namespace {

std::vector<StoredArray> arrays_of(const Description& table, int home, const float* parameters,
                                   Updater& updater) {
  std::vector<StoredArray> arrays;
  for (const Piece& piece : table.pieces) {
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
      ErrorDetail detail;
      detail.code = Code::exhausted;
      detail.operation = "checkpoint";
      detail.message = error.what();
      detail.hint = "a checkpoint takes as much memory as the shard and its states";
      return detail;
    });
  }
  return {};
}

}  // namespace weft::pslib
