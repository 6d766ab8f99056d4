// Building a graph.
#include "weft/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "runtime/dataflow/graph/checks.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

std::vector<std::optional<TensorType>> input_types(const Graph& graph, const Node& node) {
  std::vector<std::optional<TensorType>> types;
  for (const TensorId input : node.inputs)
    types.push_back(input.none() ? std::nullopt : std::optional(graph.type(input)));
  return types;
}

void check_inputs(const Node& node) {
  const auto& parameters = node.definition->inputs;
  const bool variadic =
      !parameters.empty() && parameters.back().count == Parameter::Count::variadic;
  const std::size_t count = node.inputs.size();
  if (count > parameters.size() && !variadic)
    throw_error(
        Code::bad_argument, "graph",
        fmt::format("{} gets {} inputs; it has {}", node_text(node), count, parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool given = i < count && !node.inputs[i].none();
    if (parameters[i].count != Parameter::Count::optional && !given)
      throw_error(
          Code::bad_argument, "graph",
          fmt::format("{} lacks its input {} ({})", node_text(node), i, parameters[i].name));
  }
  for (std::size_t i = parameters.size(); i < count; ++i)
    if (node.inputs[i].none())
      throw_error(Code::bad_argument, "graph",
                  fmt::format("{}: input {} is left out", node_text(node), i));
}

void complete_attributes(Node& node) {
  const auto& known = node.definition->attributes;
  for (const auto& attribute : node.attributes) {
    const std::string& name = attribute.first;
    const AttributeValue& value = attribute.second;
    const auto spec = std::find_if(known.begin(), known.end(),
                                   [&](const AttributeSpec& spec) { return spec.name == name; });
    if (spec == known.end())
      throw_error(Code::bad_argument, "graph",
                  fmt::format("{} has no attribute {}", node_text(node), name));
    if (spec->value.index() != value.index())
      throw_error(Code::bad_argument, "graph",
                  fmt::format("{}: attribute {} is of another type", node_text(node), name));
  }
  for (const AttributeSpec& spec : known) {
    if (node.attributes.find(spec.name) != nullptr) continue;
    if (spec.required)
      throw_error(Code::bad_argument, "graph",
                  fmt::format("{} needs the attribute {}", node_text(node), spec.name));
    node.attributes.set(spec.name, spec.value);
  }
}

/// The user finds it by its name in every step.
void check_named(const std::string& name, const char* kind) {
  if (name.empty())
    throw_error(Code::bad_argument, "graph", fmt::format("a {} needs a name", kind));
}

}  // namespace

std::string_view name(Memory memory) noexcept { return memory == Memory::host ? "host" : "gpu"; }

Graph::Graph(const Definitions& definitions)
    : definitions_(std::make_shared<const Definitions>(definitions)) {}

NodeId Graph::checked(NodeId node) const {
  if (node < 0 || static_cast<std::size_t>(node) >= nodes_.size())
    throw_error(Code::bad_argument, "graph",
                fmt::format("there is no node {}; the graph has {}", node, nodes_.size()));
  return node;
}

void Graph::check_tensor(TensorId tensor, const std::string& reader) const {
  if (tensor.node < 0 || static_cast<std::size_t>(tensor.node) >= nodes_.size() ||
      tensor.output < 0 ||
      static_cast<std::size_t>(tensor.output) >=
          nodes_[static_cast<std::size_t>(tensor.node)].outputs.size())
    throw_error(
        Code::bad_argument, "graph",
        fmt::format("{}: there is no tensor {} of node {}", reader, tensor.output, tensor.node),
        "use tensors that this graph's methods returned");
}

const Node& Graph::node(NodeId node) const {
  return nodes_[static_cast<std::size_t>(checked(node))];
}

const TensorType& Graph::type(TensorId tensor) const {
  check_tensor(tensor, "type of a tensor");
  return nodes_[static_cast<std::size_t>(tensor.node)]
      .outputs[static_cast<std::size_t>(tensor.output)];
}

NodeId Graph::find(std::string_view name) const {
  const auto at = names_.find(name);
  if (at == names_.end())
    throw_error(Code::bad_argument, "graph", fmt::format("no node is called '{}'", name));
  return at->second;
}

TensorId Graph::append(Node node) {
  const auto id = static_cast<NodeId>(nodes_.size());
  if (node.name.empty()) {
    const std::string base = fmt::format("{}_{}", node.definition->name, id);
    node.name = base;
    for (int i = 1; names_.contains(node.name); ++i) node.name = fmt::format("{}_{}", base, i);
  }
  if (node.name.find('\n') != std::string::npos)
    throw_error(Code::bad_argument, "graph", "the name of a node has a line break");
  if (names_.contains(node.name))
    throw_error(Code::duplicate_name, "graph",
                fmt::format("there is a node '{}' already", node.name));
  for (const TensorId input : node.inputs)
    if (!input.none()) check_tensor(input, node_text(node));
  check_inputs(node);
  complete_attributes(node);
  node.outputs = infer_node(node, input_types(*this, node));
  names_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  return {id, 0};
}

TensorId Graph::add(std::string_view definition, std::vector<TensorId> inputs,
                    Attributes attributes, std::string name) {
  return control_call("graph", [&] {
    Node node;
    node.definition = definitions().find(definition);
    if (node.definition == nullptr)
      throw_error(Code::bad_argument, "graph",
                  name.empty()
                      ? fmt::format("no definition is called '{}'", definition)
                      : fmt::format("node '{}': no definition is called '{}'", name, definition),
                  "add your own to the Definitions that the graph is made with");
    node.name = std::move(name);
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.placement = next_;
    return append(std::move(node));
  });
}

TensorId Graph::feed(std::string name, DType dtype, const PartialShape& shape) {
  check_named(name, "feed");
  return add("weft.Feed", {},
             {{"dtype", std::string(weft::name(dtype))},
              {"shape", Sizes(shape.sizes().begin(), shape.sizes().end())}},
             std::move(name));
}

TensorId Graph::variable(std::string name, DType dtype, const Shape& shape) {
  check_named(name, "variable");
  const PartialShape sizes(shape);
  return add("weft.Variable", {},
             {{"dtype", std::string(weft::name(dtype))},
              {"shape", Sizes(sizes.sizes().begin(), sizes.sizes().end())}},
             std::move(name));
}

TensorId Graph::assign(TensorId variable, TensorId value, std::string name) {
  return add("weft.Assign", {variable, value}, {}, std::move(name));
}

NodeId Graph::fetch(TensorId tensor, std::string name, Placement placement) {
  return control_call("graph", [&] {
    check_tensor(tensor, "fetch '" + name + "'");
    Node fetch;
    fetch.definition = definitions().find("weft.Fetch");
    fetch.name = std::move(name);
    fetch.inputs = {tensor};
    fetch.placement = placement.rank >= 0 ? placement : node(tensor.node).placement;
    return append(std::move(fetch)).node;
  });
}

void Graph::place(NodeId node, Placement placement) {
  nodes_[static_cast<std::size_t>(checked(node))].placement = placement;
}

void Graph::replace_input(NodeId node, std::size_t input, TensorId tensor) {
  Node& changed = nodes_[static_cast<std::size_t>(checked(node))];
  if (input >= changed.inputs.size())
    throw_error(Code::bad_argument, "graph",
                fmt::format("{} has no input {}", node_text(changed), input));
  check_tensor(tensor, node_text(changed));
  changed.inputs[input] = tensor;
}

void Graph::run_after(NodeId node, NodeId earlier) {
  auto& after = nodes_[static_cast<std::size_t>(checked(node))].after;
  if (std::find(after.begin(), after.end(), checked(earlier)) == after.end())
    after.push_back(earlier);
}

void Graph::infer() {
  control_call("graph", [&] {
    for (const NodeId id : order()) {
      Node& node = nodes_[static_cast<std::size_t>(id)];
      const auto inputs = input_types(*this, node);
      audit_node(node, inputs);
      node.outputs = infer_node(node, inputs);
    }
    check_memory(*this);
  });
}

void Graph::check_value(TensorId tensor, DType dtype, const Shape& shape) const {
  const TensorType& expected = type(tensor);
  const auto differs = [&](const char* what) {
    throw_error(Code::mismatch, "graph",
                fmt::format("{}, output {}: {}{} has {} {}", node_text(node(tensor.node)),
                            tensor.output, weft::name(dtype), shape.text(), what, expected.text()));
  };
  if (dtype != expected.dtype) differs("another dtype than");
  if (shape.dims() != expected.shape.dims()) differs("another number of dimensions than");
  if (!expected.shape.fits(PartialShape(shape))) differs("other sizes than");
}

}  // namespace weft::dataflow
