#include "pslib/checkpoint/start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/world_state.hpp"

namespace weft::pslib {
namespace {

// What a checkpoint and the table must have in common, one item a line.
std::vector<std::string> lines_of(const Manifest& manifest) {
  std::vector<std::string> lines{fmt::format("{} with {} states", manifest.rule, manifest.states)};
  for (const TensorSpec& spec : manifest.tensors)
    lines.push_back(fmt::format("tensor \"{}\" {}", spec.name, spec.shape.text()));
  if (const auto& rows = manifest.rows) {
    lines.push_back(fmt::format("rows of {} elements", rows->dim));
    lines.push_back(fmt::format("initial rows of seed {}, spread {}", rows->seed, rows->spread));
    lines.push_back(fmt::format("admit_after {}", rows->admit_after));
    lines.push_back(fmt::format("expire_after {}", rows->expire_after));
  }
  return lines;
}

void check_same_table(const std::filesystem::path& folder, const Manifest& table,
                      const Manifest& saved) {
  const auto here = lines_of(table);
  const auto there = lines_of(saved);
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const std::string a = i < here.size() ? here[i] : "nothing";
    const std::string b = i < there.size() ? there[i] : "nothing";
    if (a != b)
      refuse_file(version_folder(folder, saved.version), 0,
                  fmt::format("another table's: it has {}, the table {}", b, a));
  }
}

}  // namespace

std::filesystem::path folder_of(const CheckpointOptions& options, const std::string& table) {
  return std::filesystem::path(options.folder) / table;
}

std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, bool prepares,
                                             const Manifest& here) {
  if (options.folder.empty()) return nullptr;
  const auto folder = folder_of(options, table);
  std::shared_ptr<const Checkpoint> found;
  if (options.restore) {
    auto newest = newest_checkpoint(folder, [&](std::uint64_t version, const Error& why) {
      if (prepares)
        WorldAccess::state(world).log->warn(Subsystem::ps, "checkpoint {} is passed over: {}",
                                            version, why.what());
    });
    if (newest) found = std::make_shared<const Checkpoint>(*std::move(newest));
  }
  if (found) check_same_table(folder, here, found->manifest());
  if (prepares && options.every > 0) {
    std::filesystem::create_directories(folder);
    set_aside_newer(folder, found ? std::optional(found->manifest().version) : std::nullopt);
  }
  return found;
}

std::unique_ptr<Checkpointer> make_checkpointer(World& world, const CheckpointOptions& options,
                                                const std::string& table, std::size_t shard,
                                                std::size_t shards) {
  if (options.every == 0) return nullptr;
  return std::make_unique<Checkpointer>(
      folder_of(options, table), shard, shards,
      [log = WorldAccess::state(world).log](const std::string& why) {
        log->error(Subsystem::ps, "a checkpoint was not written: {}", why);
      });
}

}  // namespace weft::pslib
