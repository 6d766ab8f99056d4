// Checkpoints of all variables of an executor, while it trains.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "pslib/graph/saved_variables.hpp"
#include "pslib/optimizer/rules.hpp"
#include "pslib/table/entry.hpp"
#include "pslib/table/start.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {
namespace {

std::vector<int> all_ranks(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Ranks must agree on it, beside the graph, which the executor has compared.
std::string contract(const CheckpointOptions& options) {
  return fmt::format("{}checkpoint every {}, keep {}\n", start_text(options), options.every,
                     options.keep);
}

void check_options(const CheckpointOptions& options, const Manifest& manifest) {
  TableOptions as_table;
  as_table.checkpoint = options;
  check(as_table);
  if (manifest.variables->empty())
    throw_error(Code::bad_argument, "checkpoint", "the graph has no variables");
}

}  // namespace

struct VariableCheckpoints::State {
  State(const World& on, const dataflow::Executor& of, CheckpointOptions asked, std::string named)
      : world(keep(on, "checkpoint")),
        watched(dataflow::ExecutorAccess::watch(of)),
        options(std::move(asked)),
        name(std::move(named)) {}

  void start(dataflow::Executor& executor, Deadline deadline) {
    here = manifest_of(executor.plan(), 0);
    check_options(options, here);
    own = variables_of(executor.plan().parts[static_cast<std::size_t>(world.rank())]);
    words.emplace(world, all_ranks(world), "variables/" + name, contract(options), deadline);
    Agreement& agreement = *words;
    const auto from = find_start(world, options, name, {world.rank() == 0, !own.empty()}, here,
                                 agreement, deadline);
    if (from) restore(*from, executor, agreement, deadline);
    // The others may still read this rank's last word.
    agreement.part(deadline);
    if (!own.empty()) make_saver(executor.plan());
  }

  /// All ranks, or none.
  void restore(const Checkpoint& from, dataflow::Executor& executor, Agreement& agreement,
               Deadline deadline) {
    std::optional<Error> failed;
    try {
      restore_variables(from, own, executor);
    } catch (const Error& error) {
      failed = error;
    }
    const auto all = agreement.exchange({failed ? 1U : 0U, 0}, deadline);
    if (all.most[0] != 0) {
      agreement.part(deadline);
      if (failed) throw Error(*failed);
      const auto rank = static_cast<int>(all.most_place);
      ErrorDetail detail =
          error_detail(Code::system, "restore",
                       fmt::format("rank {} can't read its variables of \"{}\" in {}", rank, name,
                                   options.folder),
                       "its own error says why");
      detail.peer = rank;
      throw Error(std::move(detail));
    }
    restored = from.manifest().version;
    executor.resume(restored);
  }

  /// Ranks that hold variables have a file each.
  void make_saver(const dataflow::Plan& plan) {
    std::size_t shards = 0;
    std::size_t shard = 0;
    for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) {
      if (variables_of(plan.parts[rank]).empty()) continue;
      if (static_cast<int>(rank) == world.rank()) shard = shards;
      ++shards;
    }
    saver = make_checkpointer(world, options, name, shard, shards);
  }

  void save(dataflow::Executor& executor, std::uint64_t step) {
    saver->wait();
    copy.clear();
    std::vector<ArraySpec> arrays;
    for (const SavedVariable& variable : own) {
      const Tensor memory = executor.variable(variable.name);
      copy.insert(copy.end(), memory.data(), memory.data() + memory.bytes());
      arrays.push_back({variable.name, stored(variable.dtype), {}});
      for (std::size_t i = 0; i < variable.shape.dims(); ++i)
        arrays.back().shape.push_back(static_cast<std::uint64_t>(variable.shape[i]));
    }
    Manifest manifest = here;
    manifest.version = manifest.updates = step;
    saver->start(std::move(manifest), [this, arrays = std::move(arrays)](
                                          const os::Folder& folder, const std::string& file_name) {
      ShardFileWriter file(folder, file_name, arrays, {});
      file.append(copy);
      file.commit();
    });
  }

  bool over() const noexcept { return !weft::over(world, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world, operation); }

  World world;
  const std::weak_ptr<void> watched;  ///< the executor
  const CheckpointOptions options;
  const std::string name;
  Manifest here;
  std::vector<SavedVariable> own;
  std::uint64_t restored = 0;
  /// Kept: a rank that withdraws its words while another still reads them lets that one wait.
  std::optional<Agreement> words;
  std::vector<std::byte> copy;          ///< the writer reads it
  std::unique_ptr<Checkpointer> saver;  ///< destroyed first: waits for the writer
};

VariableCheckpoints::VariableCheckpoints(World& world, dataflow::Executor& executor,
                                         const CheckpointOptions& options, const std::string& name,
                                         Deadline deadline) {
  static_cast<void>(keep(world, "checkpoint"));
  require_state(dataflow::ExecutorAccess::watch(executor).lock(), "Executor", "checkpoint");
  control_call("checkpoint", [&] {
    state_ = std::make_unique<State>(world, executor, options, name);
    state_->start(executor, deadline);
  });
}

VariableCheckpoints::VariableCheckpoints(VariableCheckpoints&&) noexcept = default;
VariableCheckpoints& VariableCheckpoints::operator=(VariableCheckpoints&&) noexcept = default;
VariableCheckpoints::~VariableCheckpoints() = default;

std::uint64_t VariableCheckpoints::restored() const noexcept {
  return state_ ? state_->restored : 0;
}

Status VariableCheckpoints::step_ended() noexcept {
  constexpr auto kType = "VariableCheckpoints";
  if (!is_usable(state_)) return unusable(state_, kType, "step_ended");
  return returned([&]() -> Status {
    if (state_->watched.expired()) return orphaned_handle(kType, "step_ended", "Executor");
    dataflow::Executor executor = dataflow::ExecutorAccess::again(state_->watched);
    const std::uint64_t step = executor.step();
    if (state_->saver && step % state_->options.every == 0) state_->save(executor, step);
    return {};
  });
}

}  // namespace weft::pslib
