#include "pslib/table/start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/fail.hpp"
#include "pslib/checkpoint/upkeep.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

// Everything a checkpoint and a table must have in common, one item per line.
std::vector<std::string> lines_of(const Manifest& manifest) {
  std::vector<std::string> lines;
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

std::string text_of(const SavedVariable& variable) {
  return fmt::format("{}{}", name(variable.dtype), variable.shape.text());
}

// As difference() of two graphs.
std::string difference_of_variables(const std::vector<SavedVariable>& here,
                                    const std::vector<SavedVariable>& saved) {
  const auto find = [](const std::vector<SavedVariable>& in, const SavedVariable& variable) {
    const auto found = std::ranges::find(in, variable.name, &SavedVariable::name);
    return found == in.end() ? nullptr : &*found;
  };
  for (const SavedVariable& variable : here) {
    const SavedVariable* const there = find(saved, variable);
    if (there == nullptr)
      return fmt::format("another graph's: variable \"{}\" is missing", variable.name);
    if (text_of(*there) != text_of(variable))
      return fmt::format("another graph's: variable \"{}\" is {}, in the graph {}", variable.name,
                         text_of(*there), text_of(variable));
  }
  for (const SavedVariable& variable : saved)
    if (find(here, variable) == nullptr)
      return fmt::format("another graph's: it has variable \"{}\", which the graph has not",
                         variable.name);
  return {};
}

// The first difference; empty if both describe the same table, or the same graph.
std::string difference(const Manifest& table, const Manifest& saved) {
  if (table.variables && saved.variables)
    return difference_of_variables(*table.variables, *saved.variables);
  if (table.variables) return "a table's";
  if (saved.variables) return "a graph's";
  const auto here = lines_of(table);
  const auto there = lines_of(saved);
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const std::string a = i < here.size() ? here[i] : "nothing";
    const std::string b = i < there.size() ? there[i] : "nothing";
    if (a != b) return fmt::format("another table's: it has {}, the table {}", b, a);
  }
  return {};
}

std::string meeting_name(const std::string& digits) { return "meeting." + digits; }

/// A file that all ranks which write must find.
class Meeting {
 public:
  Meeting(os::Folder folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() {
    try {
      folder_.remove(name_);
    } catch (const std::exception&) {
      return;  // an empty file stays
    }
  }

 private:
  const os::Folder folder_;
  const std::string name_;
};

enum Found : std::uint64_t { kNone, kVersion, kFailed };

/// The collective search for the newest checkpoint that every rank finds complete.
class Start {
 public:
  Start(World& world, const CheckpointOptions& options, const std::string& table,
        const Manifest& here, CheckpointPart part, const Agreement& agreement)
      : world_(world),
        options_(options),
        table_(table),
        here_(here),
        part_(part),
        place_(agreement.place()),
        places_(agreement.members().size()) {}

  /// Finds this rank's newest complete checkpoint up to version `newest`.
  void look(std::uint64_t newest) {
    found_.reset();
    attempt([&] {
      const auto folder = find_folder(options_, table_);
      if (!folder) return;
      const auto refused = [&](std::uint64_t version, const Error& why, bool by_all) {
        if (part_.prepares || !by_all)
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
    if (!part_.prepares) return;
    attempt([&] {
      set_aside_newer(make_folder(options_, table_),
                      found_ ? std::optional(found_->manifest().version) : std::nullopt);
    });
  }
  /// Finds out whether all ranks that write have one folder: otherwise no checkpoint would ever be
  /// complete. Collective.
  void meet(Agreement& agreement, Deadline deadline) {
    std::uint64_t id = 0;
    if (part_.prepares)
      attempt([&] {
        const std::string digits = os::random_digits();
        const os::Folder folder = make_folder(options_, table_);
        os::Draft(folder, meeting_name(digits)).publish();
        meeting_.emplace(folder, meeting_name(digits));
        id = std::stoull(digits, nullptr, 16);
      });
    id = agreement.exchange({id, 0}, deadline).most[0];
    if (id == 0 || !part_.writes) return;
    attempt([&] {
      const auto folder = find_folder(options_, table_);
      if (folder && folder->has(meeting_name(fmt::format("{:016x}", id)))) return;
      throw_error(
          Code::mismatch, "checkpoint",
          fmt::format("{} is another folder than that of the rank which prepares checkpoints",
                      std::filesystem::absolute(options_.folder).native()),
          "give all ranks that write them one folder, on a file system that their hosts share");
    });
  }
  void check_same_table() {
    if (!found_) return;
    const std::string why = difference(here_, found_->manifest());
    if (why.empty()) return;
    const auto file = std::filesystem::path(options_.folder) / table_ /
                      version_name(found_->manifest().version) / kManifestName;
    attempt([&] {
      throw_error(Code::mismatch, "restore", fmt::format("{}: it is {}", file.native(), why),
                  "give another folder or name, or rename what differs");
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
  const CheckpointPart part_;
  const std::size_t place_;  // this rank's index among the members
  const std::size_t places_;
  std::shared_ptr<const Checkpoint> found_;
  std::optional<Error> failed_;
  std::optional<Meeting> meeting_;
};

bool goes_on(const CheckpointOptions& options) {
  return options.restore && !options.folder.empty();
}

}  // namespace

std::string start_text(const CheckpointOptions& options) {
  return goes_on(options) ? "goes on from a checkpoint\n" : "";
}

std::shared_ptr<const Checkpoint> find_start(World& world, const CheckpointOptions& options,
                                             const std::string& table, CheckpointPart part,
                                             const Manifest& here, Agreement& agreement,
                                             Deadline deadline) {
  Start start(world, options, table, here, part, agreement);
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
  if (options.every > 0) {
    start.prepare();
    start.meet(agreement, deadline);
  }
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
