// Variables that live in a table.
#include <fmt/format.h>

#include <algorithm>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "pslib/table_state.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"
#include "runtime/dataflow/graph/checks.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {

struct TableVariables::State {
  State(const World& world, dataflow::Executor& executor, Table& of, bool in_place)
      : watched(dataflow::ExecutorAccess::watch(executor)), table(of.state_), views(in_place) {
    check_is_on_host(of);
    const dataflow::Graph& part =
        executor.plan().parts[static_cast<std::size_t>(world.rank())].graph;
    for (const TensorSpec& spec : of.specs()) {
      names.push_back(name_of(part, spec.name, world.rank()));
      check_is_read_only(part, names.back());
      executor.bind(names.back(), of.parameter(spec.name));
      executor.bind(name_of(part, spec.name + "/gradient", world.rank()), of.gradient(spec.name));
    }
    if (views) check_is_whole(of);
  }

  static std::string name_of(const dataflow::Graph& part, const std::string& tensor, int rank) {
    const std::string copy = fmt::format("{}@{}", tensor, rank);
    for (const std::string& name : {tensor, copy})
      for (const dataflow::Node& node : part.nodes())
        if (node.name == name && node.definition->name == "weft.Variable") return name;
    throw_error(Code::bad_argument, "table",
                fmt::format("rank {} has no variable '{}' or '{}'", rank, tensor, copy),
                "a table's tensors are variables of the graph; push_gradients() makes those of "
                "their gradients");
  }

  static void check_is_read_only(const dataflow::Graph& part, const std::string& name) {
    const dataflow::TensorId variable{part.find(name), 0};
    for (std::size_t i = 0; i < part.size(); ++i)
      for (const dataflow::TensorId assigned :
           dataflow::assigned_variables(part, static_cast<dataflow::NodeId>(i)))
        if (assigned == variable)
          throw_error(Code::bad_argument, "table",
                      fmt::format("node '{}' assigns variable '{}', which the table updates",
                                  part.nodes()[i].name, name),
                      "give the table its gradient by push_gradients()");
  }

  static void check_is_on_host(const Table& table) {
    const std::string& name = table.specs().front().name;
    if (const Memory memory = table.parameter(name).memory(); memory.is_gpu())
      throw_error(Code::bad_argument, "table",
                  fmt::format("its tensor '{}' lies on {} here, and graphs work in host memory",
                              name, memory.text()),
                  "leave TableOptions::memory out for a table of a graph's variables");
  }

  static void check_is_whole(const Table& table) {
    for (const ShardPiece& piece : table.pieces())
      if (piece.count != table.specs()[piece.tensor].shape.elements())
        throw_error(Code::bad_argument, "table",
                    fmt::format("tensor '{}' is split over shards, and can't be viewed",
                                table.specs()[piece.tensor].name),
                    "enlarge Options::split_bytes, or use no views");
  }

  /// Calls `act` with the executor and the table; closed if either has gone.
  template <typename Act>
  auto with_both(const char* operation, const Act& act)
      -> decltype(act(std::declval<dataflow::Executor&>(), std::declval<detail::TableState&>())) {
    constexpr auto kType = "TableVariables";
    const auto living = table.lock();
    if (!living) return orphaned_handle(kType, operation, "Table");
    if (watched.expired()) return orphaned_handle(kType, operation, "Executor");
    dataflow::Executor executor = dataflow::ExecutorAccess::again(watched);
    return act(executor, *living);
  }

  Status pull(dataflow::Executor& executor, detail::TableState& from, Deadline deadline) {
    if (!is_pushed) return {};
    if (Status status = views ? from.wait_updated(deadline) : from.pull(deadline); !status.ok())
      return status;
    is_pushed = false;
    return views ? bind_views(executor, from) : Status();
  }

  /// The shards' memory, which may be mapped read-only: no node of the graph writes into it.
  Status bind_views(dataflow::Executor& executor, detail::TableState& from) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Result<ParameterView> view = from.view(from.specs()[i].name);
      if (!view.ok()) return view.status();
      const std::span<const std::byte> bytes = view->bytes();
      executor.bind(names[i], Tensor::wrap(const_cast<std::byte*>(bytes.data()), DType::f32,
                                           from.specs()[i].shape));
    }
    return {};
  }

  const std::weak_ptr<void> watched;  ///< the executor
  const std::weak_ptr<detail::TableState> table;
  const bool views;
  std::vector<std::string> names;  ///< of the variables, by tensor of the table
  bool is_pushed = false;
};

TableVariables::TableVariables(World& world, dataflow::Executor& executor, Table& table,
                               bool views) {
  static_cast<void>(keep(world, "table"));
  require_state(dataflow::ExecutorAccess::watch(executor).lock(), "Executor", "table");
  require_usable(table.state_, "Table", "table");
  control_call("table", [&] { state_ = std::make_unique<State>(world, executor, table, views); });
}

TableVariables::TableVariables(TableVariables&&) noexcept = default;
TableVariables& TableVariables::operator=(TableVariables&&) noexcept = default;
TableVariables::~TableVariables() = default;

Status TableVariables::pull(Deadline deadline) noexcept {
  if (!state_) return empty_handle("TableVariables", "pull");
  return returned([&] {
    return state_->with_both("pull", [&](dataflow::Executor& executor, detail::TableState& table) {
      return state_->pull(executor, table, deadline);
    });
  });
}

Result<dataflow::Tensors> TableVariables::run(const dataflow::Tensors& feeds,
                                              Deadline deadline) noexcept {
  if (!state_) return empty_handle("TableVariables", "run");
  const auto step = [&](dataflow::Executor& executor,
                        detail::TableState& table) -> Result<dataflow::Tensors> {
    if (Status status = state_->pull(executor, table, deadline); !status.ok()) return status;
    // A step that can't end would end the executor.
    if (!deadline.is_default() && deadline.passed())
      return refuse(Code::timeout, [] {
        return error_detail(Code::timeout, "pull", "the pull took all the time, no step has begun",
                            "run the step again");
      });
    Result<dataflow::Tensors> fetched = executor.run(feeds, deadline);
    if (!fetched.ok()) return fetched;
    if (Status status = table.push(); !status.ok()) return status;
    state_->is_pushed = true;
    return fetched;
  };
  return returned([&] { return state_->with_both("run", step); });
}

}  // namespace weft::pslib
