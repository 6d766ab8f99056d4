// Graphs as text: ranks compare them.
#include <fmt/format.h>

#include "base/fail.hpp"
#include "base/mix64.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

std::string line(const Node& node) {
  std::string text = node.name + " = " + node.definition->text() + " of (";
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "" : ", ", node.inputs[i].node, node.inputs[i].output);
  text += ") {" + node.attributes.text() + "} -> (";
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    text += (i == 0 ? "" : ", ") + node.outputs[i].text();
  text += fmt::format(") on rank {} {}", node.placement.rank, name(node.placement.memory));
  for (const NodeId earlier : node.after) text += fmt::format(" after {}", earlier);
  return text;
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return first;
}

[[noreturn]] void differ(const std::string& node, int own_rank, std::string_view own, int rank,
                         std::string_view other) {
  ErrorDetail detail =
      error_detail(Code::mismatch, "graph",
                   fmt::format("the graphs differ, first at {}: rank {} has \"{}\", rank {} \"{}\"",
                               node, own_rank, own, rank, other),
                   "build the same graph on every rank, in the same order");
  detail.rank = own_rank;
  detail.peer = rank;
  throw Error(std::move(detail));
}

}  // namespace

std::string Graph::text() const {
  std::string text;
  for (const Node& node : nodes_) text += line(node) + '\n';
  return text;
}

std::uint64_t Graph::digest() const {
  std::uint64_t hash = kFnv1a;
  for (const char c : text()) hash = fnv1a(hash, static_cast<unsigned char>(c));
  return mix64(hash);
}

void compare(const Graph& own, int own_rank, std::string_view text, int rank) {
  for (const Node& node : own.nodes()) {
    const std::string mine = line(node);
    const bool missing = text.empty();
    const std::string_view theirs = next_line(text);
    if (missing) differ(node_text(node), own_rank, mine, rank, "no further node");
    if (mine != theirs) differ(node_text(node), own_rank, mine, rank, theirs);
  }
  if (!text.empty()) {
    const std::string_view theirs = next_line(text);
    differ(fmt::format("node '{}'", theirs.substr(0, theirs.find(" = "))), own_rank,
           "no further node", rank, theirs);
  }
}

}  // namespace weft::dataflow
