#include "pslib/table/start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "pslib/checkpoint/upkeep.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

// Everything a checkpoint and the table must have in common, one item per line.
std::vector<std::string> lines_of(const Manifest& manifest) {
  std::vector<std::string> lines;
  if (manifest.variables) {
    for (const SavedVariable& variable : *manifest.variables)
      lines.push_back(fmt::format("variable \"{}\" {}{}", variable.name, name(variable.dtype),
                                  variable.shape.text()));
    return lines;
  }
  lines.push_back(fmt::format("{} with {} states", manifest.rule, manifest.states));
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

// The first difference; empty if both describe the same table, or the same graph.
std::string difference(const Manifest& table, const Manifest& saved) {
  const auto here = lines_of(table);
  const auto there = lines_of(saved);
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const std::string a = i < here.size() ? here[i] : "nothing";
    const std::string b = i < there.size() ? there[i] : "nothing";
    const char* const what = table.variables ? "graph" : "table";
    if (a != b) return fmt::format("another {}'s: it has {}, the {} {}", what, b, what, a);
  }
  return {};
}

enum Found : std::uint64_t { kNone, kVersion, kFailed };

/// The collective search for the newest checkpoint that every rank finds complete.
class Start {
 public:
  Start(World& world, const CheckpointOptions& options, const std::string& table,
        const Manifest& here, bool prepares, const Agreement& agreement)
      : world_(world),
        options_(options),
        table_(table),
        here_(here),
        prepares_(prepares),
        place_(agreement.place()),
        places_(agreement.members().size()) {}

  /// Finds this rank's newest complete checkpoint up to version `newest`.
  void look(std::uint64_t newest) {
    found_.reset();
    attempt([&] {
      const auto folder = find_folder(options_, table_);
      if (!folder) return;
      const auto refused = [&](std::uint64_t version, const Error& why, bool by_all) {
        if (prepares_ || !by_all)
          log_of(world_)->warn(Subsystem::ps, "checkpoint {} is passed over: {}", version,
                               why.what());
      };
      const auto is_wanted = [&](const Manifest& saved) {
        return difference(here_, saved).empty();
      };
      auto checkpoint = newest_checkpoint(
          *folder, refused,
          {.newest = newest, .part = place_, .parts = places_, .is_wanted = is_wanted});
      if (checkpoint) found_ = std::make_shared<const Checkpoint>(*std::move(checkpoint));
    });
  }
  void prepare() {
    if (!prepares_) return;
    attempt([&] {
      set_aside_newer(make_folder(options_, table_),
                      found_ ? std::optional(found_->manifest().version) : std::nullopt);
    });
  }
  void check_same_table() {
    if (!found_) return;
    const std::string why = difference(here_, found_->manifest());
    if (why.empty()) return;
    attempt([&] {
      refuse_file(std::filesystem::path(options_.folder) / table_ /
                      version_name(found_->manifest().version),
                  0, why);
    });
  }

  Agreement::Word word() const {
    if (failed_) return {kFailed, 0};
    if (!found_) return {kNone, 0};
    return {kVersion, found_->manifest().version};
  }
  /// Throws on every rank if any rank has failed.
  void check(const Agreement::Range& all, Agreement& agreement, Deadline deadline) {
    if (all.most[0] != kFailed) return;  // the greatest of all
    agreement.part(deadline);
    if (failed_) throw Error(*failed_);
    const int rank = agreement.members()[all.most_place % places_];
    ErrorDetail detail =
        error_detail(Code::system, here_.variables ? "restore" : "table",
                     fmt::format("rank {} can't use the checkpoints of {} \"{}\" in {}", rank,
                                 here_.variables ? "graph" : "table", table_, options_.folder),
                     "its own error says why");
    detail.peer = rank;
    throw Error(std::move(detail));
  }
  std::shared_ptr<const Checkpoint> take() { return std::move(found_); }
  void drop() { found_.reset(); }

 private:
  template <typename Do>
  void attempt(const Do& act) {
    try {
      act();
    } catch (const Error& error) {
      failed_ = error;
    }
  }

  World& world_;
  const CheckpointOptions& options_;
  const std::string& table_;
  const Manifest& here_;
  const bool prepares_;
  const std::size_t place_;  // this rank's index among the members
  const std::size_t places_;
  std::shared_ptr<const Checkpoint> found_;
  std::optional<Error> failed_;
};

bool goes_on(const CheckpointOptions& options) {
  return options.restore && !options.folder.empty();
}

}  // namespace

std::string start_text(const CheckpointOptions& options) {
  return goes_on(options) ? "goes on from a checkpoint\n" : "";
}

std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, bool prepares,
                                             const Manifest& here, Agreement& agreement,
                                             Deadline deadline) {
  Start start(world, options, table, here, prepares, agreement);
  std::uint64_t newest = std::numeric_limits<std::uint64_t>::max();
  for (bool is_settled = !goes_on(options); !is_settled;) {
    // Every rank sees the same words, so every rank reaches the same conclusion.
    if (start.word()[0] != kVersion || start.word()[1] > newest) start.look(newest);
    const auto all = agreement.exchange(start.word(), deadline);
    start.check(all, agreement, deadline);
    is_settled = all.least == all.most;
    if (is_settled) break;
    if (all.least[0] == kNone) {  // some rank finds no complete checkpoint
      start.drop();
      break;
    }
    newest = all.least[1];
  }
  start.check_same_table();
  if (options.every > 0) start.prepare();
  if (goes_on(options) || options.every > 0)
    start.check(agreement.exchange(start.word(), deadline), agreement, deadline);
  return start.take();
}

std::unique_ptr<Checkpointer> make_checkpointer(World& world, const CheckpointOptions& options,
                                                const std::string& table, std::size_t shard,
                                                std::size_t shards) {
  if (options.every == 0) return nullptr;
  return std::make_unique<Checkpointer>(
      options, table, shard, shards,
      [log = log_of(world)](const std::string& why) { log->error(Subsystem::ps, "{}", why); });
}

}  // namespace weft::pslib
