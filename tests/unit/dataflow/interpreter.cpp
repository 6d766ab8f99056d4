#include "tests/unit/dataflow/interpreter.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace weft::dataflow::reference {
namespace {

const Reuse* shared_memory(const Part& part, NodeId node, std::size_t output) {
  for (const Reuse& reuse : part.graph.node(node).definition->reuses) {
    if (reuse.output != output) continue;
    if (reuse.kind != Reuse::Kind::may) return &reuse;
    for (const InPlace& one : part.in_place)
      if (one.node == node && one.output == output && one.input == reuse.input) return &reuse;
  }
  return nullptr;
}

class Ranks {
 public:
  Ranks(const Plan& plan, const Run& run) : plan_(plan), run_(run), random_(run.seed) {
    mail_.resize(plan.edges.size());
    slots_.resize(plan.edges.size());
    for (const Part& part : plan.parts) {
      Rank rank;
      rank.values.resize(part.graph.size());
      rank.done.assign(part.graph.size(), false);
      rank.left = part.graph.size();
      for (std::size_t i = 0; i < part.graph.size(); ++i) {
        const Node& node = part.graph.nodes()[i];
        if (node.definition->name == "weft.Variable") rank.variables[i] = run.variable(node);
      }
      ranks_.push_back(std::move(rank));
    }
  }

  Fetched run() {
    for (;;) {
      std::vector<std::pair<std::size_t, NodeId>> ready;
      bool has_ended = true;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (ranks_[r].left == 0) begin_step(r);
        if (ranks_[r].step == run_.steps) continue;
        has_ended = false;
        for (std::size_t i = 0; i < ranks_[r].done.size(); ++i)
          if (is_ready(r, static_cast<NodeId>(i))) ready.emplace_back(r, static_cast<NodeId>(i));
      }
      if (has_ended) return fetched_;
      if (ready.empty()) {
        if (moved_) {
          moved_ = false;
          continue;
        }
        throw std::runtime_error("no node can run");
      }
      const auto [rank, node] = ready[random_() % ready.size()];
      execute(rank, node);
    }
  }

 private:
  struct Rank {
    int step = 0;
    std::size_t left = 0;
    std::vector<bool> done;
    std::vector<std::vector<Array>> values;
    std::map<std::size_t, Array> variables;
  };

  void begin_step(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.step == run_.steps) return;
    ++rank.step;
    moved_ = true;
    rank.left = rank.done.size();
    if (rank.step == run_.steps) return;
    std::fill(rank.done.begin(), rank.done.end(), false);
  }

  const Part& part(std::size_t rank) const { return plan_.parts[rank]; }
  static std::size_t edge_of(const Node& node) {
    return static_cast<std::size_t>(node.attributes.integer("edge"));
  }
  bool is_done(std::size_t r, NodeId node) const {
    return ranks_[r].done[static_cast<std::size_t>(node)];
  }

  bool is_ready(std::size_t r, NodeId id) const {
    const Node& node = part(r).graph.node(id);
    if (is_done(r, id)) return false;
    for (const TensorId input : node.inputs)
      if (!input.none() && !is_done(r, input.node)) return false;
    for (const NodeId earlier : node.after)
      if (!is_done(r, earlier)) return false;
    const std::string& name = node.definition->name;
    if (name == "weft.RdmaRecv" || name == "weft.RdmaRecvDyn" || name == "weft.View")
      return mail_[edge_of(node)].contains(ranks_[r].step);
    if (name == "weft.RdmaSend" && plan_.edges[edge_of(node)].needs_credits)
      return was_read(plan_.edges[edge_of(node)], ranks_[r].step - 1);
    return true;
  }

  /// True if all that touch the received tensor of `step` have ended.
  bool was_read(const Edge& edge, int step) const {
    const Rank& to = ranks_[static_cast<std::size_t>(edge.to)];
    if (step < 0 || to.step > step) return true;
    if (to.step < step) return false;
    return reads_have_ended(static_cast<std::size_t>(edge.to), {edge.receive, 0});
  }

  bool reads_have_ended(std::size_t r, TensorId tensor) const {
    const Graph& graph = part(r).graph;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const auto reader = static_cast<NodeId>(i);
      const Node& node = graph.node(reader);
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] != tensor) continue;
        if (!is_done(r, reader)) return false;
        for (std::size_t o = 0; o < node.outputs.size(); ++o) {
          const Reuse* reuse = shared_memory(part(r), reader, o);
          if (reuse != nullptr && reuse->input == k &&
              !reads_have_ended(r, {reader, static_cast<std::int32_t>(o)}))
            return false;
        }
      }
    }
    return true;
  }

  void execute(std::size_t r, NodeId id) {
    Rank& rank = ranks_[r];
    const Node& node = part(r).graph.node(id);
    const std::string& name = node.definition->name;
    std::vector<Array>& out = rank.values[static_cast<std::size_t>(id)];
    std::vector<Array> in;
    for (const TensorId input : node.inputs)
      in.push_back(input.none() ? Array()
                                : rank.values[static_cast<std::size_t>(input.node)]
                                             [static_cast<std::size_t>(input.output)]);
    if (name == "weft.Feed")
      out = {run_.feed(node, rank.step)};
    else if (name == "weft.Variable")
      out = {rank.variables[static_cast<std::size_t>(id)]};
    else if (name == "weft.Fetch")
      fetched_[node.name + "#" + std::to_string(rank.step)] = *in[0].data;
    else if (name == "weft.RdmaSend" || name == "weft.RdmaSendDyn" || name == "weft.Publish")
      send(edge_of(node), rank.step, in[0]);
    else if (name == "weft.RdmaRecv" || name == "weft.RdmaRecvDyn" || name == "weft.View")
      out = {receive(edge_of(node), rank.step)};
    else
      compute(r, id, in, out);
    for (std::size_t i = 0; i < out.size(); ++i)
      part(r).graph.check_value({id, static_cast<std::int32_t>(i)}, node.outputs[i].dtype,
                                Shape(out[i].sizes));
    rank.done[static_cast<std::size_t>(id)] = true;
    --rank.left;
  }

  void send(std::size_t index, int step, const Array& value) {
    const Edge& edge = plan_.edges[index];
    if (edge.kind == EdgeKind::viewed) {
      mail_[index][step] = value;  // the producer's own memory
      return;
    }
    Array copy(value.sizes);
    *copy.data = *value.data;
    if (edge.kind == EdgeKind::fixed) {
      if (!was_read(edge, step - 1))
        throw std::runtime_error("a send without credits overwrites " + edge.name);
      // One buffer, as in the slot.
      if (slots_[index].none()) slots_[index] = Array(value.sizes);
      *slots_[index].data = *copy.data;
      copy = slots_[index];
    }
    mail_[index][step] = copy;
  }

  Array receive(std::size_t index, int step) {
    const Array value = mail_[index].at(step);
    mail_[index].erase(step);
    return value;
  }

  void compute(std::size_t r, NodeId id, const std::vector<Array>& in, std::vector<Array>& out) {
    const Node& node = part(r).graph.node(id);
    std::vector<std::optional<TensorType>> types;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].none())
        types.emplace_back();
      else
        types.emplace_back(
            TensorType{part(r).graph.type(node.inputs[i]).dtype, PartialShape(Shape(in[i].sizes))});
    }
    const auto results = node.definition->infer(Inference(node.name, node.attributes, types));
    out.clear();
    for (std::size_t o = 0; o < results.size(); ++o) {
      const auto sizes = results[o].shape.sizes();
      const Reuse* reuse = shared_memory(part(r), id, o);
      Array array(Sizes(sizes.begin(), sizes.end()), std::nan(""));
      if (reuse != nullptr) array.data = in[reuse->input].data;
      out.push_back(array);
    }
    Call call{node.attributes, in, out};
    const auto own = run_.own.find(node.definition->name);
    own != run_.own.end() ? own->second(call) : run_kernel(node.definition->name, call);
  }

  const Plan& plan_;
  const Run& run_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::vector<std::map<int, Array>> mail_;
  std::vector<Array> slots_;
  Fetched fetched_;
  bool moved_ = false;
};

}  // namespace

Fetched interpret(const Plan& plan, const Run& run) { return Ranks(plan, run).run(); }

}  // namespace weft::dataflow::reference
