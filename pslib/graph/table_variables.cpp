// Variables that live in a table.
#include <fmt/format.h>

#include <algorithm>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "runtime/dataflow/graph/checks.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {

struct TableVariables::State {
  State(World& world, dataflow::Executor& of, Table& in, bool in_place)
      : executor(of), table(in), views(in_place) {
    const dataflow::Graph& part =
        executor.plan().parts[static_cast<std::size_t>(world.rank())].graph;
    for (const TensorSpec& spec : table.specs()) {
      names.push_back(name_of(part, spec.name, world.rank()));
      check_is_read_only(part, names.back());
      executor.bind(names.back(), table.parameter(spec.name));
      executor.bind(name_of(part, spec.name + "/gradient", world.rank()),
                    table.gradient(spec.name));
    }
    if (views) check_is_whole();
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

  void check_is_whole() const {
    for (const ShardPiece& piece : table.pieces())
      if (piece.count != table.specs()[piece.tensor].shape.elements())
        throw_error(Code::bad_argument, "table",
                    fmt::format("tensor '{}' is split over shards, and can't be viewed",
                                table.specs()[piece.tensor].name),
                    "enlarge Options::split_bytes, or use no views");
  }

  Status pull(Deadline deadline) {
    if (!is_pushed) return {};
    if (Status status = views ? table.wait_updated(deadline) : table.pull(deadline); !status.ok())
      return status;
    is_pushed = false;
    return views ? bind_views() : Status();
  }

  /// The shards' memory, which may be mapped read-only: no node of the graph writes into it.
  Status bind_views() {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Result<ParameterView> view = table.view(table.specs()[i].name);
      if (!view.ok()) return view.status();
      const std::span<const std::byte> bytes = view->bytes();
      executor.bind(names[i], Tensor::wrap(const_cast<std::byte*>(bytes.data()), DType::f32,
                                           table.specs()[i].shape));
    }
    return {};
  }

  dataflow::Executor& executor;
  Table& table;
  const bool views;
  std::vector<std::string> names;  ///< of the variables, by tensor of the table
  bool is_pushed = false;
};

TableVariables::TableVariables(World& world, dataflow::Executor& executor, Table& table,
                               bool views) {
  control_call("table", [&] { state_ = std::make_unique<State>(world, executor, table, views); });
}

TableVariables::TableVariables(TableVariables&&) noexcept = default;
TableVariables& TableVariables::operator=(TableVariables&&) noexcept = default;
TableVariables::~TableVariables() = default;

Status TableVariables::pull(Deadline deadline) noexcept {
  return returned([&] { return state_->pull(deadline); });
}

Result<dataflow::Tensors> TableVariables::run(const dataflow::Tensors& feeds,
                                              Deadline deadline) noexcept {
  return returned([&]() -> Result<dataflow::Tensors> {
    if (Status status = state_->pull(deadline); !status.ok()) return status;
    // A step that can't end would end the executor.
    if (!deadline.is_default() && deadline.passed())
      return refuse(Code::timeout, [] {
        return error_detail(Code::timeout, "pull", "the pull took all the time, no step has begun",
                            "run the step again");
      });
    Result<dataflow::Tensors> fetched = state_->executor.run(feeds, deadline);
    if (!fetched.ok()) return fetched;
    if (Status status = state_->table.push(); !status.ok()) return status;
    state_->is_pushed = true;
    return fetched;
  });
}

}  // namespace weft::pslib
