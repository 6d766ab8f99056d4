// Data-parallel copies of a graph.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "runtime/dataflow/graph/edges.hpp"
#include "runtime/dataflow/graph/inference.hpp"
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

bool is_variable(const Node& node) { return node.definition->name == "weft.Variable"; }

void check_ranks(const std::vector<int>& ranks, const char* role) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0)
      throw_error(Code::bad_argument, "replicate",
                  fmt::format("a {} is rank {}; ranks begin at 0", role, ranks[i]));
    if (std::find(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(i), ranks[i]) !=
        ranks.begin() + static_cast<std::ptrdiff_t>(i))
      throw_error(Code::bad_argument, "replicate",
                  fmt::format("rank {} is a {} twice", ranks[i], role));
  }
}

void check(const Graph& model, const ReplicaOptions& options) {
  if (options.workers.empty()) throw_error(Code::bad_argument, "replicate", "there is no worker");
  check_ranks(options.workers, "worker");
  check_ranks(options.servers, "server");
  for (const Node& node : model.nodes())
    if (node.placement.rank >= 0)
      throw_error(
          Code::bad_argument, "replicate",
          fmt::format("{} is placed on rank {} already", node_text(node), node.placement.rank),
          "replicate() places all nodes itself");
}

/// The server of every variable and assignment; -1 for all other nodes, and without servers.
class Servers {
 public:
  Servers(const Graph& model, const ReplicaOptions& options)
      : model_(model), group_(model.size()), ranks_(model.size(), -1) {
    std::iota(group_.begin(), group_.end(), 0U);
    for (std::size_t i = 0; i < model.size(); ++i)
      for (const TensorId variable : assigned_variables(model, static_cast<NodeId>(i)))
        group_[find(i)] = find(static_cast<std::size_t>(variable.node));
    if (!options.servers.empty()) assign(options);
  }

  int operator[](NodeId node) const { return ranks_[static_cast<std::size_t>(node)]; }

 private:
  struct Group {
    std::vector<std::size_t> nodes;
    std::uint64_t bytes = 0;
  };

  std::size_t find(std::size_t node) const {
    while (group_[node] != node) node = group_[node];
    return node;
  }

  std::vector<Group> groups() const {
    std::map<std::size_t, std::size_t> index;
    std::vector<Group> groups;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Node& node = model_.nodes()[i];
      if (!is_variable(node) && assigned_variables(model_, static_cast<NodeId>(i)).empty())
        continue;
      const auto at = index.try_emplace(find(i), groups.size()).first->second;
      if (at == groups.size()) groups.emplace_back();
      groups[at].nodes.push_back(i);
      if (is_variable(node)) groups[at].bytes += bytes_of(node.outputs[0]);
    }
    return groups;
  }

  void assign(const ReplicaOptions& options) {
    std::vector<Group> all = groups();
    if (options.spread == ReplicaOptions::Spread::by_bytes)
      std::stable_sort(all.begin(), all.end(),
                       [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
    std::vector<std::uint64_t> load(options.servers.size(), 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t server = i % load.size();
      if (options.spread == ReplicaOptions::Spread::by_bytes)
        server =
            static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
      load[server] += all[i].bytes;
      for (const std::size_t node : all[i].nodes) ranks_[node] = options.servers[server];
    }
  }

  const Graph& model_;
  std::vector<std::size_t> group_;
  std::vector<int> ranks_;
};

class Copier {
 public:
  Copier(const Graph& model, const ReplicaOptions& options)
      : model_(model), options_(options), servers_(model, options) {
    result_.graph = Graph(model.definitions());
    result_.workers.assign(options.workers.size(), std::vector<NodeId>(model.size(), -1));
    result_.servers.assign(model.size(), -1);
  }

  Replicas run() {
    for (const NodeId id : model_.order()) {
      if (servers_[id] >= 0 || reads_servers_only(id))
        copy_to_server(id);
      else
        for (std::size_t worker = 0; worker < options_.workers.size(); ++worker)
          copy_to_worker(id, worker);
    }
    return std::move(result_);
  }

 private:
  /// A fetch of a variable or of its new value, which exist once.
  bool reads_servers_only(NodeId id) const {
    const Node& node = model_.node(id);
    return node.definition->name == "weft.Fetch" &&
           result_.servers[static_cast<std::size_t>(node.inputs[0].node)] >= 0;
  }

  NodeId add(const Node& node, std::vector<TensorId> inputs, std::string name, int rank) {
    result_.graph.place_next({rank, node.placement.memory});
    return result_.graph
        .add(node.definition->name, std::move(inputs), node.attributes, std::move(name))
        .node;
  }

  void copy_to_worker(NodeId id, std::size_t worker) {
    const Node& node = model_.node(id);
    const int rank = options_.workers[worker];
    std::vector<TensorId> inputs;
    for (const TensorId input : node.inputs) inputs.push_back(at_worker(input, worker));
    const NodeId copy = add(node, std::move(inputs), fmt::format("{}@{}", node.name, rank), rank);
    for (const NodeId earlier : node.after)
      result_.graph.run_after(copy, after(node, earlier, worker));
    result_.workers[worker][static_cast<std::size_t>(id)] = copy;
  }

  NodeId after(const Node& node, NodeId earlier, std::size_t worker) const {
    if (servers_[earlier] >= 0)
      throw_error(Code::bad_argument, "replicate",
                  fmt::format("{} is to run after {}, which is on a server", node_text(node),
                              node_text(model_.node(earlier))));
    return result_.workers[worker][static_cast<std::size_t>(earlier)];
  }

  TensorId at_worker(TensorId tensor, std::size_t worker) const {
    if (tensor.none()) return tensor;
    const auto node = static_cast<std::size_t>(tensor.node);
    const NodeId server = result_.servers[node];
    return {server >= 0 ? server : result_.workers[worker][node], tensor.output};
  }

  void copy_to_server(NodeId id) {
    const Node& node = model_.node(id);
    const int rank = servers_[id] >= 0
                         ? servers_[id]
                         : result_.graph.node(at_worker(node.inputs[0], 0).node).placement.rank;
    if (!node.after.empty())
      throw_error(Code::bad_argument, "replicate",
                  node_text(node) + " is on a server, and cannot be told to run after others");
    std::vector<TensorId> inputs;
    for (const TensorId input : node.inputs) inputs.push_back(at_server(node, input, rank));
    result_.servers[static_cast<std::size_t>(id)] = add(node, std::move(inputs), node.name, rank);
  }

  TensorId at_server(const Node& reader, TensorId tensor, int rank) {
    if (tensor.none() || result_.servers[static_cast<std::size_t>(tensor.node)] >= 0)
      return at_worker(tensor, 0);
    if (!is_float(model_.type(tensor).dtype))
      throw_error(Code::bad_argument, "replicate",
                  fmt::format("{} gets the integers of {}; replicas' integers cannot be averaged",
                              node_text(reader), node_text(model_.node(tensor.node))));
    if (options_.workers.size() == 1) return at_worker(tensor, 0);
    const auto at = combined_.find({tensor, rank});
    if (at != combined_.end()) return at->second;
    std::vector<TensorId> parts;
    for (std::size_t worker = 0; worker < options_.workers.size(); ++worker)
      parts.push_back(at_worker(tensor, worker));
    const std::string name = fmt::format("{}:{}", model_.node(tensor.node).name, tensor.output);
    result_.graph.place_next({rank, reader.placement.memory});
    TensorId all = result_.graph.add("Sum", parts, {}, fmt::format("sum of {}@{}", name, rank));
    if (options_.mean)
      all = result_.graph.add("weft.Scale", {all},
                              {{"factor", 1.0 / static_cast<double>(parts.size())}},
                              fmt::format("mean of {}@{}", name, rank));
    combined_.insert({{tensor, rank}, all});
    return all;
  }

  const Graph& model_;
  const ReplicaOptions& options_;
  Servers servers_;
  Replicas result_;
  std::map<std::pair<TensorId, int>, TensorId> combined_;
};

}  // namespace

Replicas replicate(const Graph& model, const ReplicaOptions& options) {
  return control_call("replicate", [&] {
    Graph checked = model;
    checked.infer();
    check(checked, options);
    return Copier(checked, options).run();
  });
}

}  // namespace weft::dataflow
