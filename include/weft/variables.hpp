// Variables of a dataflow graph: updated by pslib's rules, saved by its checkpoints, or in a table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/api.hpp"
#include "weft/checkpoint.hpp"
#include "weft/executor.hpp"
#include "weft/graph.hpp"
#include "weft/optimizer.hpp"
#include "weft/pslib.hpp"

namespace weft::pslib {

/// Adds to `own` the definition "weft.ApplyGradient", which overwrites a variable by an optimizer's
/// rule, and returns all: for Graph's constructor. docs/dataflow.md has its inputs.
///
/// Control calls: all functions and constructors here may throw Error(exhausted) too.
WEFT_API dataflow::Definitions with_updates(
    dataflow::Definitions own = dataflow::Definitions::standard());
/// Adds to `own` its kernel in host memory, unless there is one, and returns all. `rules`: the user
/// rules of the graphs' optimizers, found by Rule::text(). Throws Error(bad_argument) for a missing
/// rule, or two with one text. The kernel runs in the thread that calls it; one thread at a time
/// calls a user rule.
WEFT_API dataflow::Kernels with_updates(dataflow::Kernels own,
                                        std::span<const std::shared_ptr<const Rule>> rules = {});

/// Adds the update of each of `variables`, f32, by `optimizer` with `gradients`, in their order.
/// The variables' state is variables too, zeros at first: "<variable>/updates", an i64 that counts
/// updates, and "<variable>/state0" and "/state1" as the rule needs them. Returns the new values.
///
/// With the same gradients a variable has the same bits as in a dense bsp table with that rule and
/// schedule. The norms of lars are each variable's own: a gradient that is not finite skips the
/// update of that variable alone. replicate() places all that belongs to a variable with it, and
/// gives it the workers' mean gradient.
///
/// Throws Error: bad_argument (the graph has no definition "weft.ApplyGradient", a tensor is no
/// variable or has a dtype or shape that isn't its gradient's, an invalid constant),
/// duplicate_name.
WEFT_API std::vector<dataflow::TensorId> apply_gradients(
    dataflow::Graph& graph, std::span<const dataflow::TensorId> gradients,
    std::span<const dataflow::TensorId> variables, const Optimizer& optimizer,
    const Schedule& schedule = {});
/// The same with the gradients of `loss`, which it adds. Throws what dataflow::gradients() does
/// too.
WEFT_API std::vector<dataflow::TensorId> apply_gradients(
    dataflow::Graph& graph, dataflow::TensorId loss, std::span<const dataflow::TensorId> variables,
    const Optimizer& optimizer, const Schedule& schedule = {});

/// Saves all variables of an executor, of any dtype, in pslib's checkpoints, and restores them:
/// each rank those that it holds, whatever their placement was when they were saved. A checkpoint
/// is of one step of all ranks: complete, or not there. docs/pslib.md has the format. Rules with
/// the same states, such as momentum and nesterov, are not told apart. Restoring
/// makes the executor go on with the step that follows, so that a resumed run has the bits of an
/// undisturbed one. Its calls are Code::closed once the executor has gone. Thread-safety: as the
/// executor.
class WEFT_API VariableCheckpoints {
 public:
  /// Every rank of the world makes one with equal arguments, before its first step and after it has
  /// given variables their first values and their memory (Executor::bind). `name`: the subfolder of
  /// CheckpointOptions::folder. Restores the newest complete checkpoint if the options say so.
  /// Throws Error, on every rank: mismatch (ranks disagree; or the checkpoint is another graph's,
  /// with its file and the first variable that is missing, or of another dtype or shape),
  /// bad_argument (options; a graph without variables), system, exhausted, timeout, peer_failed.
  VariableCheckpoints(World& world, dataflow::Executor& executor, const CheckpointOptions& options,
                      const std::string& name = "graph", Deadline deadline = {});
  VariableCheckpoints(VariableCheckpoints&&) noexcept;
  VariableCheckpoints& operator=(VariableCheckpoints&&) noexcept;
  /// Waits for the checkpoint that is being written.
  ~VariableCheckpoints();

  /// The number of steps before the restored checkpoint; 0: none was restored.
  std::uint64_t restored() const noexcept;
  /// Call after each step. Saves if the options ask for it: copies this rank's variables, and
  /// returns while a background thread writes them. A checkpoint that can't be written is a line in
  /// the log, and the job goes on. Errors: exhausted (no memory for the copy).
  Status step_ended() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Loads this rank's variables alone from a checkpoint of VariableCheckpoints, for a graph that has
/// only some of its variables: one that evaluates, for example. No other rank takes part.
/// `version`: the number of steps before it; empty: the newest complete one. Returns it; the
/// executor's step stays. Throws Error: mismatch with the file (no such checkpoint; a variable,
/// which the error names, is missing, damaged, or of another dtype or shape), system.
WEFT_API std::uint64_t load_variables(const World& world, dataflow::Executor& executor,
                                      const std::string& folder, const std::string& name = "graph",
                                      std::optional<std::uint64_t> version = std::nullopt);

/// The tensors of a table for `variables`, for ParameterServer::table. Throws Error(bad_argument).
WEFT_API std::vector<TensorSpec> table_specs(const dataflow::Graph& graph,
                                             std::span<const dataflow::TensorId> variables);
/// Adds variables "<variable>/gradient" that are assigned `gradients`, for TableVariables. The
/// table updates the variables themselves: the graph only reads them. Returns the new values.
/// Throws Error: bad_argument, duplicate_name.
WEFT_API std::vector<dataflow::TensorId> push_gradients(
    dataflow::Graph& graph, std::span<const dataflow::TensorId> gradients,
    std::span<const dataflow::TensorId> variables);

/// Variables that live in a dense table of f32: this worker's executor reads the table's parameter
/// tensors and computes the gradients in its gradient tensors, without a copy. Staleness, replicas
/// and compression are the table's. Its calls are Code::closed once the executor or the table has
/// gone. Thread-safety: as the table.
class WEFT_API TableVariables {
 public:
  /// Binds the table's tensors to the variables of their names on this rank, and their gradients to
  /// those that push_gradients() has made: "w" and "w/gradient", or "w@<rank>" and
  /// "w/gradient@<rank>" of replicate() without servers. Each worker makes one, after the table's
  /// initialize() or before; the graph's other variables may be in other tables. `views`: steps
  /// read the parameters on their shards where a shard's memory can be loaded from (Table::view),
  /// in place of copies: bsp tables without replicas only, others refuse it in the first pull.
  /// Throws Error: bad_argument (a variable is missing, or assigned by the graph; with `views` a
  /// tensor is split over shards), mismatch (dtype or shape).
  TableVariables(World& world, dataflow::Executor& executor, Table& table, bool views = false);
  TableVariables(TableVariables&&) noexcept;
  TableVariables& operator=(TableVariables&&) noexcept;
  ~TableVariables();

  /// Pulls what results from the last push, runs a step, and pushes its gradients. So a step waits
  /// for the table as late as possible. Errors: those of Table::pull, Executor::run and
  /// Table::push. After a timeout of the pull no step has begun, and the call may be repeated; a
  /// step's (operation "step ...") ends the executor.
  Result<dataflow::Tensors> run(const dataflow::Tensors& feeds = {},
                                Deadline deadline = {}) noexcept;
  /// Pulls what results from the last push, if it hasn't been pulled: after the last step, say. The
  /// values are Executor::variable()'s, with `views` not Table::parameter()'s.
  Status pull(Deadline deadline = {}) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::pslib
