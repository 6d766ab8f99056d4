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
      {"weft.Feed", Work::feed},        {"weft.Variable", Work::variable},
      {"weft.Fetch", Work::fetch},      {"weft.Assign", Work::assign},
      {"weft.RdmaSend", Work::send},    {"weft.RdmaSendDyn", Work::send},
      {"weft.RdmaRecv", Work::receive}, {"weft.RdmaRecvDyn", Work::receive}};
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
        program_(graph_.size()) {}

  std::vector<Instruction> build() {
    for (std::size_t i = 0; i < graph_.size(); ++i) add(static_cast<NodeId>(i));
    find_sent();
    for (std::size_t i = 0; i < graph_.size(); ++i) choose_homes(static_cast<NodeId>(i));
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
          "give the executor operators() of weft/operators.hpp, or add one by Kernels::add");
  }

  void find_sent() {
    if (sent_memory_ == SentMemory::plain) return;
    for (const Instruction& one : program_)
      if (one.work == Work::send) sent_.insert(storage_of(graph_, one.node->inputs[0]));
  }

  void choose_homes(NodeId id) {
    Instruction& one = at(id);
    for (std::size_t output = 0; output < one.node->outputs.size(); ++output) {
      const bool is_sent = sent_.contains({id, static_cast<std::int32_t>(output)}) &&
                           !(sent_memory_ == SentMemory::traced && one.work == Work::kernel);
      Home home{is_sent ? Home::Kind::arena : Home::Kind::plain};
      for (const Reuse& reuse : one.node->definition->reuses)
        if (reuse.output == output && reuse.kind != Reuse::Kind::may)
          home = {Home::Kind::input, reuse.input};
      // A tensor that is sent stays in memory that can be sent.
      if (home.kind == Home::Kind::plain)
        for (const InPlace& place : part_.in_place)
          if (place.node == id && place.output == output) home = {Home::Kind::input, place.input};
      one.homes.push_back(home);
    }
  }

  void find_users() {
    const Readers readers = readers_of(graph_);
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].work != Work::receive) continue;
      const auto id = static_cast<NodeId>(i);
      std::set<NodeId> users;
      for (const Reader reader : readers_before(graph_, readers, {id, 0}, -1))
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
  std::vector<Instruction> program_;
  std::set<TensorId> sent_;
};

}  // namespace

std::vector<Instruction> make_program(const Plan& plan, int rank, const Kernels& kernels,
                                      SentMemory sent) {
  return ProgramBuilder(plan, rank, kernels, sent).build();
}

}  // namespace weft::dataflow
