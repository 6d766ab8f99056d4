#include "runtime/dataflow/execute/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/fail.hpp"
#include "runtime/dataflow/graph/checks.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

bool is_alias(const Definition& definition, std::size_t outputs) {
  std::set<std::size_t> aliases;
  for (const Reuse& reuse : definition.reuses)
    if (reuse.kind == Reuse::Kind::alias) aliases.insert(reuse.output);
  return outputs > 0 && aliases.size() == outputs;
}

Work work_of(const Node& node) {
  static const std::map<std::string, Work, std::less<>> own = {
      {"weft.Feed", Work::feed},           {"weft.Variable", Work::variable},
      {"weft.Fetch", Work::fetch},         {"weft.Assign", Work::assign},
      {"weft.RdmaSend", Work::send},       {"weft.RdmaSendDyn", Work::send},
      {"weft.Publish", Work::send},        {"weft.RdmaRecv", Work::receive},
      {"weft.RdmaRecvDyn", Work::receive}, {"weft.View", Work::receive}};
  if (const auto found = own.find(node.definition->name); found != own.end()) return found->second;
  return is_alias(*node.definition, node.outputs.size()) ? Work::alias : Work::kernel;
}

/// For a node without a kernel: the library that has one.
std::string library_for(const Node& node) {
  if (!Definitions::standard().find(node.definition->name)) return "";
  return node.placement.memory == Memory::host
             ? "; the library weft::operators has one"
             : "; the library weft::operators has one for host memory";
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Plan& plan, int rank, const Kernels& kernels, SentMemory sent)
      : plan_(plan),
        part_(plan.parts[static_cast<std::size_t>(rank)]),
        graph_(part_.graph),
        rank_(rank),
        kernels_(kernels),
        sent_memory_(sent),
        readers_(readers_of(graph_)),
        program_(graph_.size()) {}

  std::vector<Instruction> build() {
    for (std::size_t i = 0; i < graph_.size(); ++i) add(static_cast<NodeId>(i));
    find_sent();
    for (std::size_t i = 0; i < graph_.size(); ++i) choose_homes(static_cast<NodeId>(i));
    for (std::size_t i = 0; i < graph_.size(); ++i)
      if (program_[i].work == Work::assign) compute_in_place(static_cast<NodeId>(i));
    find_users();
    return std::move(program_);
  }

 private:
  Instruction& at(NodeId node) { return program_[static_cast<std::size_t>(node)]; }

  void add(NodeId id) {
    Instruction& one = at(id);
    one.node = &graph_.node(id);
    one.work = work_of(*one.node);
    if (one.work == Work::kernel) find_kernel(one);
    if (one.work == Work::send || one.work == Work::receive) {
      one.edge = static_cast<std::size_t>(one.node->attributes.integer("edge"));
      const Edge& edge = plan_.edges[one.edge];
      one.peer = edge.from == rank_ ? edge.to : edge.from;
    }
    std::set<NodeId> earlier(one.node->after.begin(), one.node->after.end());
    for (const TensorId input : one.node->inputs)
      if (!input.none()) earlier.insert(input.node);
    one.earlier = static_cast<int>(earlier.size());
    for (const NodeId before : earlier) at(before).later.push_back(id);
  }

  void find_kernel(Instruction& one) const {
    const Node& node = *one.node;
    one.kernel = kernels_.find(node.definition->name, node.placement.memory);
    if (one.kernel == nullptr)
      throw_error(
          Code::bad_argument, "executor",
          fmt::format("there is no kernel for {} in {} memory, on rank {}{}", node_text(node),
                      name(node.placement.memory), rank_, library_for(node)),
          node.definition->name == "weft.ApplyGradient"
              ? "give the executor with_updates() of weft/variables.hpp"
              : "give the executor operators() of weft/operators.hpp, or add one by Kernels::add");
  }

  void find_sent() {
    if (sent_memory_ == SentMemory::plain) return;
    for (const Instruction& one : program_) {
      if (one.work != Work::send) continue;
      const TensorId root = storage_of(graph_, one.node->inputs[0]);
      (plan_.edges[one.edge].kind == EdgeKind::viewed ? viewed_ : sent_).insert(root);
    }
  }

  void choose_homes(NodeId id) {
    Instruction& one = at(id);
    for (std::size_t output = 0; output < one.node->outputs.size(); ++output) {
      const TensorId tensor{id, static_cast<std::int32_t>(output)};
      const bool is_traced = sent_memory_ == SentMemory::traced && one.work == Work::kernel;
      // A tensor that others view is sent from there too.
      Home home{viewed_.contains(tensor)               ? Home::Kind::published
                : sent_.contains(tensor) && !is_traced ? Home::Kind::arena
                                                       : Home::Kind::plain};
      for (const Reuse& reuse : one.node->definition->reuses)
        if (reuse.output == output && reuse.kind != Reuse::Kind::may && applies(reuse, *one.node))
          home = {Home::Kind::input, reuse.input};
      // A tensor that is sent stays in memory that can be sent.
      if (home.kind == Home::Kind::plain)
        for (const InPlace& place : part_.in_place)
          if (place.node == id && place.output == output) home = {Home::Kind::input, place.input};
      one.homes.push_back(home);
    }
  }

  /// A variable that no node reads before its assignment, such as a gradient for a table, has the
  /// new value computed in its memory.
  void compute_in_place(NodeId assignment) {
    const auto& inputs = at(assignment).node->inputs;
    const NodeId assigned = inputs[0].node;
    const TensorId value = storage_of(graph_, inputs[1]);
    Instruction& source = at(value.node);
    if (at(assigned).work != Work::variable || source.work != Work::kernel ||
        readers_[static_cast<std::size_t>(assigned)][0].size() != 1 || sent_.contains(value))
      return;
    using enum Home::Kind;
    const Home::Kind of_variable = at(assigned).homes[0].kind;
    Home& home = source.homes[static_cast<std::size_t>(value.output)];
    // An input's memory may be taken, but need not. A value is computed for one variable alone.
    if ((of_variable == plain || of_variable == arena) &&
        (home.kind == plain || home.kind == input))
      home = {Home::Kind::variable, 0, assigned};
  }

  void find_users() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].work != Work::receive) continue;
      const auto id = static_cast<NodeId>(i);
      std::set<NodeId> users;
      for (const Reader reader : readers_before(graph_, readers_, {id, 0}, -1))
        users.insert(reader.node);
      program_[i].users = static_cast<int>(users.size());
      for (const NodeId user : users) at(user).reads.push_back(id);
    }
  }

  const Plan& plan_;
  const Part& part_;
  const Graph& graph_;
  const int rank_;
  const Kernels& kernels_;
  const SentMemory sent_memory_;
  const Readers readers_;
  std::vector<Instruction> program_;
  std::set<TensorId> sent_;    ///< not by views
  std::set<TensorId> viewed_;  ///< by other ranks
};

}  // namespace

std::vector<Instruction> make_program(const Plan& plan, int rank, const Kernels& kernels,
                                      SentMemory sent) {
  return ProgramBuilder(plan, rank, kernels, sent).build();
}

}  // namespace weft::dataflow
