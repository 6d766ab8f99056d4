// Gradients as nodes: backwards through the graph, operator by operator.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "runtime/dataflow/graph/inference.hpp"
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

class Backwards {
 public:
  Backwards(Graph& graph, TensorId loss, std::span<const TensorId> variables)
      : graph_(graph), loss_(loss), variables_(variables), depends_(graph.size(), false) {}

  std::vector<TensorId> run() {
    const std::vector<NodeId> order = graph_.order();
    mark_dependent(order);
    start();
    for (auto node = order.rbegin(); node != order.rend(); ++node) go_through(*node);
    std::vector<TensorId> gradients;
    for (const TensorId variable : variables_) {
      gradients.push_back(sum(variable));
      if (gradients.back().none())
        throw_error(
            Code::bad_argument, "gradients",
            fmt::format("the loss of {} doesn't depend on {}", node_text(graph_.node(loss_.node)),
                        node_text(graph_.node(variable.node))));
    }
    return gradients;
  }

 private:
  bool depends(TensorId tensor) const {
    return !tensor.none() &&
           (depends_[static_cast<std::size_t>(tensor.node)] || is_variable(tensor));
  }
  bool is_variable(TensorId tensor) const {
    return std::find(variables_.begin(), variables_.end(), tensor) != variables_.end();
  }

  /// Marks the nodes with an input that depends on a variable.
  void mark_dependent(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      const auto& inputs = graph_.node(id).inputs;
      depends_[static_cast<std::size_t>(id)] =
          std::any_of(inputs.begin(), inputs.end(), [&](TensorId input) { return depends(input); });
    }
  }

  void start() {
    const TensorType type = graph_.type(loss_);
    if (!type.shape.known() || type.shape.shape().elements() != 1 || !is_float(type.dtype))
      throw_error(Code::bad_argument, "gradients",
                  fmt::format("the loss of {} is {}; it must be one floating-point number",
                              node_text(graph_.node(loss_.node)), type.text()));
    const TensorId one =
        graph_.add("weft.Fill", {},
                   {{"dtype", std::string(name(type.dtype))},
                    {"shape", Sizes(type.shape.sizes().begin(), type.shape.sizes().end())},
                    {"value", 1.0}});
    graph_.place(one.node, graph_.node(loss_.node).placement);
    parts_[loss_].push_back(one);
  }

  /// The sum of the gradients that readers of `tensor` have contributed; none without any.
  TensorId sum(TensorId tensor) {
    const auto at = parts_.find(tensor);
    if (at == parts_.end()) return {};
    if (at->second.size() > 1) {
      const TensorId all = graph_.add("Sum", at->second);
      graph_.place(all.node, graph_.node(tensor.node).placement);
      at->second = {all};
    }
    return at->second.front();
  }

  void go_through(NodeId id) {
    if (!depends_[static_cast<std::size_t>(id)]) return;
    std::vector<TensorId> gradients;
    bool has_any = false;
    for (std::size_t i = 0; i < graph_.node(id).outputs.size(); ++i) {
      gradients.push_back(sum({id, static_cast<std::int32_t>(i)}));
      has_any = has_any || !gradients.back().none();
    }
    if (!has_any) return;
    const auto definition = graph_.node(id).definition;
    if (!definition->gradient)
      throw_error(Code::bad_argument, "gradients",
                  fmt::format("{} has no gradient, and lies between the loss and a variable",
                              node_text(graph_.node(id))),
                  "give its definition a gradient");
    std::vector<bool> needs;
    for (const TensorId input : graph_.node(id).inputs) needs.push_back(depends(input));
    GradientBuilder builder(graph_, id, std::move(gradients), std::move(needs));
    contribute(id, definition->gradient(builder));
  }

  void contribute(NodeId id, const std::vector<TensorId>& results) {
    const std::vector<TensorId> inputs = graph_.node(id).inputs;
    if (results.size() > inputs.size())
      throw_error(Code::bad_argument, "gradients",
                  fmt::format("the gradient of {} has {} results for {} inputs",
                              node_text(graph_.node(id)), results.size(), inputs.size()));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].none() || !depends(inputs[i])) continue;
      const TensorType& is = graph_.type(results[i]);
      const TensorType& should = graph_.type(inputs[i]);
      if (is.dtype != should.dtype || is.shape.dims() != should.shape.dims())
        throw_error(Code::bad_argument, "gradients",
                    fmt::format("the gradient of {} is {} for input {}, which is {}",
                                node_text(graph_.node(id)), is.text(), i, should.text()));
      parts_[inputs[i]].push_back(results[i]);
    }
  }

  Graph& graph_;
  TensorId loss_;
  std::span<const TensorId> variables_;
  std::vector<bool> depends_;
  std::map<TensorId, std::vector<TensorId>> parts_;
};

}  // namespace

GradientBuilder::GradientBuilder(Graph& graph, std::int32_t node, std::vector<TensorId> gradients,
                                 std::vector<bool> needs)
    : graph_(graph),
      node_(node),
      attributes_(graph.node(node).attributes),
      inputs_(graph.node(node).inputs),
      gradients_(std::move(gradients)),
      needs_(std::move(needs)) {}

TensorId GradientBuilder::output(std::size_t i) const noexcept {
  return {node_, static_cast<std::int32_t>(i)};
}

TensorId GradientBuilder::gradient_or_zeros(std::size_t i) {
  return gradients_[i].none() ? add("weft.ZerosLike", {output(i)}) : gradients_[i];
}

TensorId GradientBuilder::add(std::string_view definition, std::vector<TensorId> inputs,
                              Attributes attributes) {
  const TensorId added = graph_.add(definition, std::move(inputs), std::move(attributes));
  graph_.place(added.node, graph_.node(node_).placement);
  return added;
}

std::vector<TensorId> gradients(Graph& graph, TensorId loss, std::span<const TensorId> variables) {
  return control_call("gradients", [&] {
    for (const TensorId variable : variables) static_cast<void>(graph.type(variable));
    return Backwards(graph, loss, variables).run();
  });
}

}  // namespace weft::dataflow
