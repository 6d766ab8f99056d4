// Plans as text, JSON and pictures.
#include <fmt/format.h>

#include "runtime/dataflow/graph/plan_dot.hpp"
#include "runtime/dataflow/graph/quoted.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow {
namespace {

std::string size_text(const Edge& edge) {
  return edge.type.shape.known() ? fmt::format("{} bytes", edge.bytes) : "open size";
}

bool is_end(const Part& part, std::size_t node) { return part.origin[node] < 0; }

std::string dot_node(const std::string& prefix, std::size_t i, const Node& node, bool is_end) {
  const std::string& definition = node.definition->name;
  const bool keeps = definition == "weft.Variable";
  const bool outside = definition == "weft.Feed" || definition == "weft.Fetch";
  return fmt::format("{}{} [label={} shape={}];\n", prefix, i,
                     quoted(node.name + " (" + definition + ")"),
                     is_end    ? "cds"
                     : keeps   ? "cylinder"
                     : outside ? "plaintext"
                               : "box");
}

std::string dot_inputs(const std::string& prefix, std::size_t i, const Graph& graph) {
  std::string text;
  const Node& node = graph.nodes()[i];
  for (const TensorId input : node.inputs)
    if (!input.none())
      text += fmt::format("{}{} -> {}{} [label={}];\n", prefix, input.node, prefix, i,
                          quoted(graph.type(input).text()));
  for (const NodeId earlier : node.after)
    text += fmt::format("{}{} -> {}{} [style=dotted];\n", prefix, earlier, prefix, i);
  return text;
}

}  // namespace

std::string Plan::text() const {
  std::string text;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    text += fmt::format("edge {}: {} {} from rank {} to {}: {}, {} ({}); {} ({})\n", i, edge.name,
                        edge.type.text(), edge.from, edge.to, name(edge.kind), size_text(edge),
                        edge.why, edge.needs_credits ? "credits" : "no credits", edge.why_credits);
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Part& part = parts[rank];
    text += fmt::format(
        "rank {}: {} nodes, {} in place; {} bytes in arenas: received {}, sent {}, published {}; "
        "dynamic edges: {}\n",
        rank, part.graph.size(), part.in_place.size(), part.memory.total(), part.memory.received,
        part.memory.sent, part.memory.published, part.memory.dynamic);
  }
  return text;
}

std::string Plan::json() const {
  std::string text = "{\"edges\": [";
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    text += fmt::format(
        "{}\n {{\"tensor\": {}, \"from\": {}, \"to\": {}, \"dtype\": \"{}\", \"shape\": [",  //
        i == 0 ? "" : ",", quoted(edge.name), edge.from, edge.to, weft::name(edge.type.dtype));
    for (std::size_t d = 0; d < edge.type.shape.dims(); ++d)
      text += fmt::format("{}{}", d == 0 ? "" : ", ", edge.type.shape[d]);
    text += fmt::format(
        "], \"kind\": \"{}\", \"why\": {}, \"bytes\": {}, \"credits\": {}, \"why_credits\": {}}}",
        name(edge.kind), quoted(edge.why), edge.bytes, edge.needs_credits,
        quoted(edge.why_credits));
  }
  text += "],\n\"ranks\": [";
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const MemoryNeed& memory = parts[rank].memory;
    text += fmt::format(
        "{}\n {{\"rank\": {}, \"nodes\": {}, \"in_place\": {}, \"bytes\": {}, \"received\": {}, "
        "\"sent\": {}, \"published\": {}, \"dynamic_edges\": {}}}",
        rank == 0 ? "" : ",", rank, parts[rank].graph.size(), parts[rank].in_place.size(),
        memory.total(), memory.received, memory.sent, memory.published, memory.dynamic);
  }
  return text + "]}\n";
}

std::string planned_text(const Edge& edge) {
  return fmt::format("{}, {}{}", name(edge.kind), size_text(edge),
                     edge.kind == EdgeKind::fixed && !edge.needs_credits ? ", no credits" : "");
}

std::string draw(const Plan& plan, const std::function<std::string(const Edge&)>& label) {
  std::string text = "digraph plan {\nrankdir=LR;\n";
  for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) {
    const Part& part = plan.parts[rank];
    const std::string prefix = fmt::format("r{}_", rank);
    text += fmt::format("subgraph cluster_{} {{\nlabel=\"rank {}\";\n", rank, rank);
    for (std::size_t i = 0; i < part.graph.size(); ++i)
      text += dot_node(prefix, i, part.graph.nodes()[i], is_end(part, i));
    for (std::size_t i = 0; i < part.graph.size(); ++i) text += dot_inputs(prefix, i, part.graph);
    text += "}\n";
  }
  for (const Edge& edge : plan.edges)
    text += fmt::format("r{}_{} -> r{}_{} [label={} style={}];\n", edge.from, edge.send, edge.to,
                        edge.receive, quoted(label(edge)),
                        edge.kind == EdgeKind::dynamic ? "dashed" : "bold");
  return text + "}\n";
}

std::string Plan::dot() const { return draw(*this, planned_text); }

std::string dot(const Graph& graph) {
  std::string text = "digraph graph_before {\nrankdir=LR;\n";
  for (std::size_t i = 0; i < graph.size(); ++i) text += dot_node("n", i, graph.nodes()[i], false);
  for (std::size_t i = 0; i < graph.size(); ++i) text += dot_inputs("n", i, graph);
  return text + "}\n";
}

}  // namespace weft::dataflow
