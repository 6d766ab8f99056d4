// The nodes around the operator that updates variables, and around gradients that go to a table.
#include <fmt/format.h>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "pslib/graph/update_attributes.hpp"
#include "pslib/optimizer/rules.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {
namespace {

using dataflow::Graph;
using dataflow::TensorId;

using Ids = std::span<const TensorId>;

/// Throws Error(bad_argument) unless all are variables of known shapes, with one gradient each.
void check_variables(const char* operation, const Graph& graph, Ids gradients, Ids variables) {
  if (gradients.size() != variables.size())
    throw_error(
        Code::bad_argument, operation,
        fmt::format("there are {} gradients for {} variables", gradients.size(), variables.size()));
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const dataflow::Node& node = graph.node(variables[i].node);
    if (node.definition->name != "weft.Variable")
      throw_error(Code::bad_argument, operation,
                  fmt::format("node '{}' ({}) is no variable", node.name, node.definition->name));
    if (graph.type(gradients[i]) != graph.type(variables[i]))
      throw_error(Code::bad_argument, operation,
                  fmt::format("the gradient of variable '{}' is {}, the variable {}", node.name,
                              graph.type(gradients[i]).text(), graph.type(variables[i]).text()));
  }
}

/// A variable beside another: "<variable>/<what>", on its rank.
TensorId add_beside(Graph& graph, TensorId variable, const char* what, DType dtype,
                    const Shape& shape) {
  const TensorId added =
      graph.variable(fmt::format("{}/{}", graph.node(variable.node).name, what), dtype, shape);
  graph.place(added.node, graph.node(variable.node).placement);
  return added;
}

void check_rule(const Optimizer& optimizer, const Schedule& schedule) {
  TableOptions options(optimizer);
  options.schedule = schedule;
  check(options);
}

TensorId apply_gradient(Graph& graph, TensorId gradient, TensorId variable,
                        const Optimizer& optimizer, const dataflow::Attributes& attributes) {
  static constexpr const char* kStates[Rule::kMostStates] = {"state0", "state1"};
  const Shape shape = graph.type(variable).shape.shape();
  std::vector<TensorId> inputs{variable, gradient};
  inputs.push_back(add_beside(graph, variable, "updates", DType::i64, {}));
  for (std::size_t i = 0; i < states(optimizer); ++i)
    inputs.push_back(add_beside(graph, variable, kStates[i], DType::f32, shape));
  const TensorId applied = graph.add("weft.ApplyGradient", inputs, attributes,
                                     fmt::format("update of {}", graph.node(variable.node).name));
  graph.place(applied.node, graph.node(variable.node).placement);
  return applied;
}

}  // namespace

std::vector<TensorId> apply_gradients(Graph& graph, Ids gradients, Ids variables,
                                      const Optimizer& optimizer, const Schedule& schedule) {
  return control_call("apply_gradients", [&] {
    check_rule(optimizer, schedule);
    if (!graph.definitions().find("weft.ApplyGradient"))
      throw_error(Code::bad_argument, "apply_gradients",
                  "the graph doesn't know the definition weft.ApplyGradient",
                  "make it with with_updates() of weft/variables.hpp");
    check_variables("apply_gradients", graph, gradients, variables);
    const dataflow::Attributes attributes = update_attributes(optimizer, schedule);
    std::vector<TensorId> updated;
    for (std::size_t i = 0; i < variables.size(); ++i)
      updated.push_back(apply_gradient(graph, gradients[i], variables[i], optimizer, attributes));
    return updated;
  });
}

std::vector<TensorId> apply_gradients(Graph& graph, TensorId loss, Ids variables,
                                      const Optimizer& optimizer, const Schedule& schedule) {
  return control_call("apply_gradients", [&] {
    check_rule(optimizer, schedule);
    const std::vector<TensorId> found = dataflow::gradients(graph, loss, variables);
    return apply_gradients(graph, found, variables, optimizer, schedule);
  });
}

std::vector<TensorSpec> table_specs(const Graph& graph, Ids variables) {
  return control_call("table_specs", [&] {
    std::vector<TensorSpec> specs;
    for (const TensorId variable : variables) {
      const dataflow::Node& node = graph.node(variable.node);
      if (node.definition->name != "weft.Variable" || graph.type(variable).dtype != DType::f32)
        throw_error(
            Code::bad_argument, "table_specs",
            fmt::format("node '{}' ({}) is no variable of f32", node.name, node.definition->name),
            "tables have tensors of f32");
      specs.push_back({node.name, graph.type(variable).shape.shape()});
    }
    return specs;
  });
}

std::vector<TensorId> push_gradients(Graph& graph, Ids gradients, Ids variables) {
  return control_call("push_gradients", [&] {
    check_variables("push_gradients", graph, gradients, variables);
    std::vector<TensorId> pushed;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const dataflow::TensorType type = graph.type(variables[i]);
      const TensorId gradient =
          add_beside(graph, variables[i], "gradient", type.dtype, type.shape.shape());
      pushed.push_back(graph.assign(gradient, gradients[i],
                                    fmt::format("push of {}", graph.node(variables[i].node).name)));
      graph.place(pushed.back().node, graph.node(gradient.node).placement);
    }
    return pushed;
  });
}

}  // namespace weft::pslib
