// Orders in which nodes may run.
#include <fmt/format.h>

#include <functional>
#include <queue>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

template <typename Act>
void for_each_earlier(const Node& node, const Act& act) {
  for (const TensorId input : node.inputs)
    if (!input.none()) act(input.node);
  for (const NodeId earlier : node.after) act(earlier);
}

/// Follows nodes that wait until one comes again.
[[noreturn]] void refuse_cycle(const Graph& graph, const std::vector<std::size_t>& waits_for) {
  NodeId at = 0;
  while (waits_for[static_cast<std::size_t>(at)] == 0) ++at;
  std::vector<NodeId> path;
  std::vector<bool> seen(graph.size(), false);
  while (!seen[static_cast<std::size_t>(at)]) {
    seen[static_cast<std::size_t>(at)] = true;
    path.push_back(at);
    NodeId next = -1;
    for_each_earlier(graph.node(at), [&](NodeId earlier) {
      if (waits_for[static_cast<std::size_t>(earlier)] > 0) next = earlier;
    });
    at = next;
  }
  std::string text = graph.node(at).name;
  while (path.back() != at) {
    text += " -> " + graph.node(path.back()).name;
    path.pop_back();
  }
  throw_error(Code::bad_argument, "graph",
              fmt::format("{} is in a cycle: {} -> {}", node_text(graph.node(at)), text,
                          graph.node(at).name),
              "a step has no cycles; carry a value to the next step in a variable");
}

}  // namespace

std::vector<NodeId> Graph::order() const {
  std::vector<std::size_t> waits_for(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> later(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for_each_earlier(nodes_[i], [&](NodeId earlier) {
      ++waits_for[i];
      later[static_cast<std::size_t>(earlier)].push_back(static_cast<NodeId>(i));
    });
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (waits_for[i] == 0) ready.push(static_cast<NodeId>(i));
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const NodeId next : later[static_cast<std::size_t>(node)])
      if (--waits_for[static_cast<std::size_t>(next)] == 0) ready.push(next);
  }
  if (order.size() < nodes_.size()) refuse_cycle(*this, waits_for);
  return order;
}

}  // namespace weft::dataflow
