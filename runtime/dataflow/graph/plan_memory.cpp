// The memory of a plan: operators in place, and bytes per rank.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/edges.hpp"

namespace weft::dataflow {
namespace {

/// True if the memory of `root` belongs to the step alone: it is neither a variable, a feed nor a
/// slot.
bool is_own(const Graph& graph, TensorId root) {
  static constexpr const char* kForeign[] = {"weft.Feed", "weft.Variable", "weft.RdmaRecv",
                                             "weft.RdmaRecvDyn", "weft.View"};
  return std::none_of(std::begin(kForeign), std::end(kForeign), [&](const char* name) {
    return graph.node(root.node).definition->name == name;
  });
}

/// True if nothing but `node` reads the memory of its input, apart from the aliases in between.
bool is_last_reader(const Graph& graph, const Readers& readers, NodeId node, std::size_t input) {
  const TensorId tensor = graph.node(node).inputs[input];
  const std::vector<NodeId> aliases = path_to_storage(graph, tensor);
  std::set<NodeId> path(aliases.begin(), aliases.end());
  path.insert(node);
  const TensorId root = storage_of(graph, tensor);
  std::size_t own = 0;
  for (const Reader reader : readers_before(graph, readers, root, -1)) {
    if (!path.contains(reader.node)) return false;
    own += reader.node == node ? 1 : 0;
  }
  return own == 1;
}

struct LargestEdge {
  std::string name;
  std::uint64_t bytes = 0;
};

/// A viewed tensor takes memory of its producer alone.
LargestEdge largest_of(const Plan& plan, int rank) {
  LargestEdge largest;
  for (const Edge& edge : plan.edges) {
    const bool is_here = edge.from == rank || (edge.to == rank && edge.kind != EdgeKind::viewed);
    if (is_here && edge.bytes > largest.bytes) largest = {edge.name, edge.bytes};
  }
  return largest;
}

void check_limits(const Plan& plan, const std::vector<std::uint64_t>& limits) {
  std::string text;
  for (std::size_t rank = 0; rank < limits.size(); ++rank) {
    const std::uint64_t need = plan.parts[rank].memory.total();
    if (need <= limits[rank]) continue;
    const LargestEdge largest = largest_of(plan, static_cast<int>(rank));
    text += fmt::format("{}rank {} needs {} bytes and has {} (largest: '{}', {} bytes)",
                        text.empty() ? "" : "; ", rank, need, limits[rank], largest.name,
                        largest.bytes);
  }
  if (!text.empty())
    throw_error(Code::exhausted, "partition", "the plan is larger than the arenas: " + text,
                "enlarge the arenas or place fewer tensors there; without arena_bytes the plan "
                "tells the bytes of every rank");
}

}  // namespace

std::vector<InPlace> find_in_place(const Graph& part) {
  const Readers readers = readers_of(part);
  std::vector<InPlace> found;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    std::set<std::size_t> taken;  // an output takes one input's memory
    for (const Reuse& reuse : part.nodes()[i].definition->reuses) {
      if (reuse.kind != Reuse::Kind::may || taken.contains(reuse.output) ||
          !applies(reuse, part.nodes()[i]))
        continue;
      const TensorId input = part.nodes()[i].inputs[reuse.input];
      const TensorType& output = part.nodes()[i].outputs[reuse.output];
      if (part.type(input) != output || !output.shape.known()) continue;
      if (!is_own(part, storage_of(part, input)) ||
          !is_last_reader(part, readers, node, reuse.input))
        continue;
      taken.insert(reuse.output);
      found.push_back({node, reuse.input, reuse.output});
    }
  }
  return found;
}

TensorId published_root(const Plan& plan, const Edge& edge) {
  const Graph& part = plan.parts[static_cast<std::size_t>(edge.from)].graph;
  return storage_of(part, part.node(edge.send).inputs[0]);
}

bool keeps_memory(const Graph& part, TensorId root) {
  const std::string& definition = part.node(root.node).definition->name;
  return definition == "weft.Feed" || definition == "weft.Variable";
}

namespace {

/// Adds without wrapping around.
void grow(std::uint64_t& sum, std::uint64_t more) noexcept {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::uint64_t MemoryNeed::total() const noexcept {
  std::uint64_t all = received;
  grow(all, sent);
  grow(all, published);
  return all;
}

void measure_memory(Plan& plan, const std::vector<std::uint64_t>& limits) {
  std::set<std::pair<int, TensorId>> published;
  for (const Edge& edge : plan.edges) {
    if (edge.kind != EdgeKind::viewed) continue;
    const TensorId root = published_root(plan, edge);
    Part& from = plan.parts[static_cast<std::size_t>(edge.from)];
    if (!published.insert({edge.from, root}).second) continue;
    grow(from.memory.published, edge.bytes);
    if (!keeps_memory(from.graph, root)) grow(from.memory.published, edge.bytes);
  }
  std::set<TensorId> sent;
  for (const Edge& edge : plan.edges) {
    MemoryNeed& from = plan.parts[static_cast<std::size_t>(edge.from)].memory;
    MemoryNeed& to = plan.parts[static_cast<std::size_t>(edge.to)].memory;
    if (edge.kind == EdgeKind::dynamic) {
      ++from.dynamic;
      ++to.dynamic;
    }
    if (edge.kind != EdgeKind::fixed) continue;
    grow(to.received, edge.bytes);
    // A tensor that is viewed as well is sent from its published slot.
    if (!published.contains({edge.from, published_root(plan, edge)}) &&
        sent.insert(edge.tensor).second)
      grow(from.sent, edge.bytes);
  }
  check_limits(plan, limits);
}

}  // namespace weft::dataflow
