// The use of memory: aliases, operators that overwrite, assignments of variables.
#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/edges.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

/// The reuse that makes the memory of `tensor` that of an input, or null.
const Reuse* reuse_of(const Graph& graph, TensorId tensor) {
  const Node& node = graph.node(tensor.node);
  for (const Reuse& reuse : node.definition->reuses)
    if (reuse.kind != Reuse::Kind::may && reuse.output == static_cast<std::size_t>(tensor.output) &&
        applies(reuse, node))
      return &reuse;
  return nullptr;
}

bool is_a(const Graph& graph, NodeId node, std::string_view definition) {
  return graph.node(node).definition->name == definition;
}

/// All tensors of the memory of `root`, except those that `writer` and its readers make.
std::vector<TensorId> tensors_before(const Graph& graph, const Readers& readers, TensorId root,
                                     NodeId writer) {
  std::vector<TensorId> tensors{root};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorId tensor = tensors[i];
    for (const Reader reader :
         readers[static_cast<std::size_t>(tensor.node)][static_cast<std::size_t>(tensor.output)]) {
      if (reader.node == writer) continue;
      for (const Reuse& reuse : graph.node(reader.node).definition->reuses)
        if (reuse.kind != Reuse::Kind::may && reuse.input == reader.input &&
            applies(reuse, graph.node(reader.node)))
          tensors.push_back({reader.node, static_cast<std::int32_t>(reuse.output)});
    }
  }
  return tensors;
}

std::vector<bool> later_than(const Graph& graph, const std::vector<NodeId>& order, NodeId node) {
  std::vector<bool> later(graph.size(), false);
  later[static_cast<std::size_t>(node)] = true;
  for (const NodeId id : order) {
    const Node& one = graph.node(id);
    const auto is_later = [&](NodeId earlier) { return later[static_cast<std::size_t>(earlier)]; };
    const bool reads = std::any_of(one.inputs.begin(), one.inputs.end(), [&](TensorId input) {
      return !input.none() && is_later(input.node);
    });
    if (reads || std::any_of(one.after.begin(), one.after.end(), is_later))
      later[static_cast<std::size_t>(id)] = true;
  }
  return later;
}

struct Overwrite {
  NodeId writer;
  TensorId input;
  TensorId root;
};

void check_readers_of_variable(const Graph& graph, const std::vector<NodeId>& order,
                               const std::vector<Reader>& readers, const Overwrite& overwrite) {
  const std::vector<bool> later = later_than(graph, order, overwrite.writer);
  for (const Reader reader : readers)
    if (reader.node != overwrite.writer && later[static_cast<std::size_t>(reader.node)])
      throw_error(Code::bad_argument, "graph",
                  fmt::format("{} reads the old value of {} and depends on its new one, which {} "
                              "writes into the same memory",
                              node_text(graph.node(reader.node)),
                              node_text(graph.node(overwrite.root.node)),
                              node_text(graph.node(overwrite.writer))),
                  "read the output of the assignment instead of the variable");
}

void check_only_reader(const Graph& graph, const std::vector<Reader>& readers,
                       const Overwrite& overwrite) {
  // The aliases between the tensor and its memory are readers that change nothing.
  std::vector<NodeId> path = path_to_storage(graph, overwrite.input);
  path.push_back(overwrite.writer);
  for (const Reader reader : readers) {
    const bool on_path = std::find(path.begin(), path.end(), reader.node) != path.end();
    const bool twice = reader.node == overwrite.writer &&
                       std::count(graph.node(reader.node).inputs.begin(),
                                  graph.node(reader.node).inputs.end(), overwrite.input) > 1;
    if (!on_path || twice)
      throw_error(
          Code::bad_argument, "graph",
          fmt::format("{} works in place on the output of {}, which has a second reader: {}",
                      node_text(graph.node(overwrite.writer)),
                      node_text(graph.node(overwrite.input.node)),
                      node_text(graph.node(reader.node))),
          "give it a copy, or use an operator that doesn't work in place");
  }
}

}  // namespace

Readers readers_of(const Graph& graph) {
  Readers readers(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) readers[i].resize(graph.nodes()[i].outputs.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const auto& inputs = graph.nodes()[i].inputs;
    for (std::size_t input = 0; input < inputs.size(); ++input)
      if (!inputs[input].none())
        readers[static_cast<std::size_t>(inputs[input].node)]
               [static_cast<std::size_t>(inputs[input].output)]
                   .push_back({static_cast<NodeId>(i), input});
  }
  return readers;
}

bool applies(const Reuse& reuse, const Node& node) noexcept {
  return reuse.input < node.inputs.size() && !node.inputs[reuse.input].none() &&
         reuse.output < node.outputs.size();
}

TensorId storage_of(const Graph& graph, TensorId tensor) {
  while (const Reuse* reuse = reuse_of(graph, tensor))
    tensor = graph.node(tensor.node).inputs[reuse->input];
  return tensor;
}

std::vector<NodeId> path_to_storage(const Graph& graph, TensorId tensor) {
  std::vector<NodeId> path{tensor.node};
  while (const Reuse* reuse = reuse_of(graph, tensor)) {
    tensor = graph.node(tensor.node).inputs[reuse->input];
    path.push_back(tensor.node);
  }
  return path;
}

std::vector<TensorId> assigned_variables(const Graph& graph, NodeId node) {
  std::vector<TensorId> variables;
  for (const Reuse& reuse : graph.node(node).definition->reuses) {
    if (reuse.kind != Reuse::Kind::must || !applies(reuse, graph.node(node))) continue;
    const TensorId root = storage_of(graph, graph.node(node).inputs[reuse.input]);
    if (is_a(graph, root.node, "weft.Variable")) variables.push_back(root);
  }
  return variables;
}

std::vector<Reader> readers_before(const Graph& graph, const Readers& readers, TensorId root,
                                   NodeId writer) {
  std::vector<Reader> all;
  for (const TensorId tensor : tensors_before(graph, readers, root, writer)) {
    const auto& some =
        readers[static_cast<std::size_t>(tensor.node)][static_cast<std::size_t>(tensor.output)];
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void check_memory(const Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  const Readers readers = readers_of(graph);
  std::vector<NodeId> assigned_by(graph.size(), -1);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const auto writer = static_cast<NodeId>(i);
    for (const Reuse& reuse : graph.nodes()[i].definition->reuses) {
      if (reuse.kind != Reuse::Kind::must || !applies(reuse, graph.nodes()[i])) continue;
      const TensorId input = graph.nodes()[i].inputs[reuse.input];
      const Overwrite overwrite{writer, input, storage_of(graph, input)};
      const auto root = static_cast<std::size_t>(overwrite.root.node);
      const auto before = readers_before(graph, readers, overwrite.root, writer);
      if (is_a(graph, overwrite.root.node, "weft.Feed"))
        throw_error(Code::bad_argument, "graph",
                    fmt::format("{} overwrites the feed of {}", node_text(graph.node(writer)),
                                node_text(graph.node(overwrite.root.node))));
      if (!is_a(graph, overwrite.root.node, "weft.Variable")) {
        check_only_reader(graph, before, overwrite);
        continue;
      }
      if (assigned_by[root] >= 0)
        throw_error(Code::bad_argument, "graph",
                    fmt::format("{} assigns {}, as {} does already", node_text(graph.node(writer)),
                                node_text(graph.node(overwrite.root.node)),
                                node_text(graph.node(assigned_by[root]))),
                    "a step assigns a variable once");
      assigned_by[root] = writer;
      check_readers_of_variable(graph, order, before, overwrite);
    }
  }
  // Two assignments that each read the other's variable leave no order.
  Graph ordered = graph;
  order_assignments(ordered);
  static_cast<void>(ordered.order());
}

}  // namespace weft::dataflow
