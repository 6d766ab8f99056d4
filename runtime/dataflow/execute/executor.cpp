// The start of an executor, and its calls.
#include "weft/executor.hpp"

#include <fmt/format.h>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "runtime/dataflow/execute/agreement.hpp"
#include "runtime/dataflow/execute/make_report.hpp"
#include "runtime/dataflow/execute/step_runner.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

PartitionOptions partition_options(const World& world, const ExecutorOptions& options) {
  PartitionOptions partition;
  partition.ranks = world.size();
  // The executor sends between ranks of one host too.
  partition.may_view = false;
  if (options.arena_bytes != 0)
    partition.arena_bytes.assign(static_cast<std::size_t>(world.size()), options.arena_bytes);
  return partition;
}

void check_options(const ExecutorOptions& options) {
  constexpr int kMostThreads = 1024;
  if (options.name.empty() || options.name.size() > 64 || options.threads < 0 ||
      options.threads > kMostThreads)
    throw_error(Code::bad_argument, "executor",
                fmt::format("name '{}', {} threads", options.name, options.threads),
                "a name has 1 to 64 bytes; threads: 0 to 1024");
}

std::string slot_name(const ExecutorOptions& options, const Plan& plan, std::size_t edge) {
  constexpr std::size_t kLongest = 200;
  return fmt::format("{}/{} {}", options.name, edge, plan.edges[edge].name).substr(0, kLongest);
}

}  // namespace

struct Executor::State {
  State(World& on, Kernels known) : world(on), kernels(std::move(known)) {}

  /// The part of the start that needs no other rank.
  void prepare(const Graph& graph, const ExecutorOptions& options) {
    check_options(options);
    plan = partition(graph, partition_options(world, options));
    program = make_program(plan, world.rank(), kernels, options.sent);
  }

  /// The part with all ranks.
  void start(const ExecutorOptions& options) {
    const Deadline deadline = options.start;
    const std::unique_ptr<Way> way = make_slot_way();
    memory.emplace(world, program, options.sent);
    neighbours.emplace(world, plan, options.name);
    ends.sends.resize(plan.edges.size());
    ends.receives.resize(plan.edges.size());
    for (std::size_t i = 0; i < plan.edges.size(); ++i)
      slot_names.push_back(slot_name(options, plan, i));
    const int own = world.rank();
    for (std::size_t i = 0; i < plan.edges.size(); ++i)
      if (plan.edges[i].to == own)
        ends.receives[i] = way->expose(world, plan.edges[i], slot_names[i]);
    for (std::size_t i = 0; i < plan.edges.size(); ++i)
      if (plan.edges[i].from == own)
        ends.sends[i] = way->attach(world, plan.edges[i], slot_names[i], deadline);
    neighbours->attach(deadline);
    allocate_memory();
    runner.emplace(world, plan, program, *memory, ends, *neighbours);
    runner->start_threads(options.threads);
  }

  /// So that no step registers memory.
  void allocate_memory() {
    for (std::size_t i = 0; i < program.size(); ++i) {
      const Node& node = *program[i].node;
      const auto id = static_cast<NodeId>(i);
      if (program[i].work == Work::variable) memory->variable(id);
      for (std::size_t output = 0; output < node.outputs.size(); ++output)
        if (program[i].homes[output].kind == Home::Kind::arena &&
            program[i].work != Work::receive && node.outputs[output].shape.known())
          memory->get(id, output, node.outputs[output].dtype, node.outputs[output].shape.shape());
    }
  }

  const Graph& part() const { return plan.parts[static_cast<std::size_t>(world.rank())].graph; }

  /// The node of this rank that has this name and does this work.
  NodeId find(std::string_view name, Work work, const char* what) const {
    for (std::size_t i = 0; i < program.size(); ++i)
      if (program[i].work == work && program[i].node->name == name) return static_cast<NodeId>(i);
    throw_error(Code::bad_argument, "executor",
                fmt::format("rank {} has no {} '{}'", world.rank(), what, name),
                "give each rank what is placed there");
  }

  Tensor feed_memory(std::string_view name, const Shape* shape) {
    const NodeId node = find(name, Work::feed, "feed");
    const TensorType& type = part().type({node, 0});
    if (shape == nullptr && !type.shape.known())
      throw_error(Code::bad_argument, "executor",
                  fmt::format("the shape {} of {} is open", type.shape.text(),
                              node_text(part().node(node))),
                  "give the shape of this step");
    if (shape != nullptr) part().check_value({node, 0}, type.dtype, *shape);
    return memory->get(node, 0, type.dtype, shape != nullptr ? *shape : type.shape.shape());
  }

  std::vector<Tensor> checked(const Tensors& feeds) const {
    std::vector<Tensor> values(program.size());
    for (const auto& [name, tensor] : feeds) {
      const NodeId node = find(name, Work::feed, "feed");
      part().check_value({node, 0}, tensor.dtype(), tensor.shape());
      if (!tensor.dense() || lacks_memory(tensor))
        throw_error(Code::bad_argument, "run",
                    fmt::format("the tensor for {} has no memory, or is not dense",
                                node_text(part().node(node))));
      values[static_cast<std::size_t>(node)] = tensor;
    }
    for (std::size_t i = 0; i < program.size(); ++i)
      if (program[i].work == Work::feed && !feeds.contains(program[i].node->name))
        throw_error(Code::bad_argument, "run",
                    fmt::format("there is no tensor for {}", node_text(*program[i].node)));
    return values;
  }

  World& world;
  const Kernels kernels;
  Plan plan;
  std::vector<Instruction> program;
  std::vector<std::string> slot_names;  ///< by edge
  std::optional<TensorMemory> memory;
  std::optional<Neighbours> neighbours;
  Ends ends;
  std::optional<StepRunner> runner;  ///< destroyed first: its threads use the others
};

Executor::Executor(World& world, const Graph& graph, Kernels kernels,
                   const ExecutorOptions& options) {
  state_ = control_call("executor", [&] {
    auto state = std::make_unique<State>(world, std::move(kernels));
    Status problem;
    try {
      state->prepare(graph, options);
    } catch (const Error& error) {
      problem = error.status();
    }
    agree(world, graph, problem, options.start);
    state->start(options);
    return state;
  });
}

Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

const Plan& Executor::plan() const noexcept { return state_->plan; }

Tensor Executor::feed(std::string_view name) {
  return control_call("feed", [&] { return state_->feed_memory(name, nullptr); });
}

Tensor Executor::feed(std::string_view name, const Shape& shape) {
  return control_call("feed", [&] { return state_->feed_memory(name, &shape); });
}

Tensor Executor::variable(std::string_view name) {
  return control_call("variable", [&] {
    return state_->memory->variable(state_->find(name, Work::variable, "variable"));
  });
}

Result<Tensors> Executor::run(const Tensors& feeds, Deadline deadline) noexcept {
  return returned(
      [&]() -> Result<Tensors> { return state_->runner->run(state_->checked(feeds), deadline); });
}

ExecutorCounters Executor::counters() const noexcept { return state_->runner->counters(); }

ExecutorReport Executor::report() const {
  return control_call("report", [&] {
    ExecutorReport report =
        make_report(state_->world, state_->plan, state_->slot_names, state_->runner->activity());
    report.sites = state_->memory->sites();
    return report;
  });
}

}  // namespace weft::dataflow
