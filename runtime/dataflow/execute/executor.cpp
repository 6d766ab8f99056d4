// The start of an executor, and its calls.
#include "weft/executor.hpp"

#include <fmt/format.h>

#include <new>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "base/handle.hpp"
#include "base/tensor_checks.hpp"
#include "runtime/dataflow/execute/agreement.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"
#include "runtime/dataflow/execute/make_report.hpp"
#include "runtime/dataflow/execute/step_ends.hpp"
#include "runtime/dataflow/execute/step_runner.hpp"
#include "runtime/dataflow/graph/inference.hpp"

namespace weft::dataflow {
namespace {

PartitionOptions partition_options(const World& world, const std::vector<Agreement::Place>& places,
                                   const ExecutorOptions& options) {
  PartitionOptions partition;
  partition.ranks = world.size();
  for (const Agreement::Place& place : places)
    partition.hosts.push_back(static_cast<int>(place.host));
  partition.may_view = options.way == EdgeWay::views;
  if (options.arena_bytes != 0)
    partition.arena_bytes.assign(static_cast<std::size_t>(world.size()), options.arena_bytes);
  return partition;
}

/// Beside ExecutorOptions::arena_bytes, which partition() compares.
void check_room(const Plan& plan, const std::vector<Agreement::Place>& places) {
  std::string text;
  const auto compare_with = [&](std::size_t rank, const char* arena, std::uint64_t need,
                                std::uint64_t room) {
    if (need > room)
      text += fmt::format("{}rank {} needs {} bytes in its {} arena, where {} are left",
                          text.empty() ? "" : "; ", rank, need, arena, room);
  };
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const MemoryNeed& need = plan.parts[rank].memory;
    compare_with(rank, "data", need.received + need.sent, places[rank].room.data);
    compare_with(rank, "published", need.published, places[rank].room.published);
  }
  if (!text.empty())
    throw_error(Code::exhausted, "executor", "the plan is larger than the arenas: " + text,
                "raise WEFT_ARENA_MAX there, or place fewer tensors there");
}

void check_options(const ExecutorOptions& options) {
  constexpr int kMostThreads = 1024;
  if (options.name.empty() || options.name.size() > 64 || options.threads < 0 ||
      options.threads > kMostThreads)
    throw_error(Code::bad_argument, "executor",
                fmt::format("name '{}', {} threads", options.name, options.threads),
                "a name has 1 to 64 bytes; threads: 0 to 1024");
  if (options.sent > SentMemory::plain || options.way > EdgeWay::rendezvous)
    throw_error(
        Code::bad_argument, "executor",
        fmt::format("there is no memory {} or no way {}", int(options.sent), int(options.way)),
        "use values of SentMemory and EdgeWay");
}

std::string slot_name(const ExecutorOptions& options, const Plan& plan, std::size_t edge) {
  constexpr std::size_t kLongest = 200;
  return fmt::format("{}/{} {}", options.name, edge, plan.edges[edge].name).substr(0, kLongest);
}

}  // namespace

struct Executor::State {
  State(const World& on, Kernels known) : world(keep(on, "executor")), kernels(std::move(known)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!runner) return;  // the start has failed
    const bool has_failed = runner->has_failed();
    const std::uint64_t steps = runner->counters().steps;
    runner.reset();
    ends = {};
    step_ends->tell_end();
    if (!has_failed) step_ends->await_others(steps, *neighbours);
  }

  bool over() const noexcept { return !weft::over(world, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world, operation); }

  /// The part of the start that needs no other rank.
  void prepare(const Graph& graph, const std::vector<Agreement::Place>& places,
               const ExecutorOptions& options) {
    check_options(options);
    sent = options.sent;
    plan = partition(graph, partition_options(world, places, options));
    check_room(plan, places);
    program = make_program(plan, world.rank(), kernels, options.sent);
  }

  /// The slots and signals that other ranks attach to. Nothing here waits for another rank.
  void expose(const ExecutorOptions& options) try {
    own_name = Signal::expose(world, options.name + "/name");
    publications.emplace(world, plan, options.name);
    memory.emplace(world, program, *publications, options.sent);
    views = make_view_way(world, plan, options.name, *publications);
    neighbours.emplace(world, plan, options.name);
    step_ends.emplace(world, plan, options.name, [&](const Edge& edge) {
      return !is_by_slots                    ? Stays::both
             : edge.kind == EdgeKind::viewed ? Stays::producer
                                             : Stays::none;
    });
    if (is_by_slots) way = make_slot_way(world);
    for (const EdgePlace& place : own_edges(options))
      if (is_by_slots || place.edge.kind == EdgeKind::viewed) way_of(place.edge).expose(place);
  } catch (const Error& error) {
    if (error.status().code() != Code::duplicate_name) throw;
    ErrorDetail detail = error.detail();
    detail.operation = "executor";
    detail.message = fmt::format("rank {} has an executor '{}' already, or a slot or signal of its",
                                 world.rank(), options.name);
    detail.hint = "give each executor of a world its own name";
    throw Error(std::move(detail));
  }

  /// The part with all ranks.
  void attach(const ExecutorOptions& options, const MakeWay& make_way) {
    const Deadline deadline = options.start;
    const std::vector<EdgePlace> places = own_edges(options);
    if (!is_by_slots) {
      way = make_way ? make_way(world, plan)
                     : make_rendezvous_way(world, options.name, plan, deadline);
      for (const EdgePlace& place : places)
        if (place.edge.kind != EdgeKind::viewed) way->expose(place);
    }
    ends.sends.resize(plan.edges.size());
    ends.receives.resize(plan.edges.size());
    for (const EdgePlace& place : places)
      if (place.edge.from == world.rank())
        ends.sends[place.index] = way_of(place.edge).send_end(place, deadline);
      else
        ends.receives[place.index] = way_of(place.edge).receive_end(place, deadline);
    neighbours->attach(deadline);
    step_ends->attach(deadline);
    allocate_memory();
    shown.emplace(world, options.name, plan, slots_of_edges(), program);
    runner.emplace(world, plan, program, *memory, ends, *neighbours, *shown);
    runner->start_threads(options.threads);
  }

  std::vector<EdgePlace> own_edges(const ExecutorOptions& options) const {
    std::vector<EdgePlace> places;
    for (std::size_t i = 0; i < plan.edges.size(); ++i)
      if (plan.edges[i].from == world.rank() || plan.edges[i].to == world.rank())
        places.push_back({i, plan.edges[i], slot_name(options, plan, i)});
    return places;
  }

  std::vector<std::string> slots_of_edges() const {
    std::vector<std::string> slots(plan.edges.size());
    for (std::size_t i = 0; i < plan.edges.size(); ++i) {
      if (ends.sends[i]) slots[i] = ends.sends[i]->costs().slot;
      if (ends.receives[i]) slots[i] = ends.receives[i]->costs().slot;
    }
    return slots;
  }

  Way& way_of(const Edge& edge) const { return edge.kind == EdgeKind::viewed ? *views : *way; }

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

  void bind(std::string_view name, const Tensor& to) {
    const NodeId node = find(name, Work::variable, "variable");
    part().check_value({node, 0}, to.dtype(), to.shape());
    const Home::Kind home = program[static_cast<std::size_t>(node)].homes[0].kind;
    const auto refuse_memory = [&](const char* why,
                                   const char* hint = "give it a dense tensor by World::allocate") {
      throw_error(Code::bad_argument, "bind",
                  fmt::format("the memory for {} {}", node_text(part().node(node)), why), hint);
    };
    if (to.memory().is_gpu()) refuse_memory("lies on a GPU");
    if (!to.dense() || lacks_host_memory(to)) refuse_memory("is missing, or not dense");
    if (home == Home::Kind::published)
      refuse_memory("is a published slot's, where other ranks view it", "use EdgeWay::slots");
    if (home != Home::Kind::plain && to.arena() != memory->variable(node).arena())
      refuse_memory("can't be sent to other ranks without a copy",
                    sent == SentMemory::registered
                        ? "SentMemory::registered registers the executor's own memory alone"
                        : "give it a dense tensor by World::allocate");
    memory->bind(node, to);
  }

  std::vector<Tensor> checked(const Tensors& feeds) const {
    std::vector<Tensor> values(program.size());
    for (const auto& [name, tensor] : feeds) {
      const NodeId node = find(name, Work::feed, "feed");
      part().check_value({node, 0}, tensor.dtype(), tensor.shape());
      if (!tensor.dense() || lacks_host_memory(tensor))
        throw_error(Code::bad_argument, "run",
                    fmt::format("the tensor for {} {}", node_text(part().node(node)),
                                tensor.memory().is_gpu() ? "lies on a GPU"
                                                         : "has no memory, or is not dense"));
      values[static_cast<std::size_t>(node)] = tensor;
    }
    for (std::size_t i = 0; i < program.size(); ++i)
      if (program[i].work == Work::feed && !feeds.contains(program[i].node->name))
        throw_error(Code::bad_argument, "run",
                    fmt::format("there is no tensor for {}", node_text(*program[i].node)));
    return values;
  }

  World world;
  SentMemory sent = SentMemory::arena;
  Signal own_name;                     ///< whose only use is that its name is taken
  bool is_by_slots = true;             ///< all edges that are not viewed
  std::optional<Agreement> agreement;  ///< stays, since its end sends messages
  const Kernels kernels;
  Plan plan;
  std::vector<Instruction> program;
  std::optional<Publications> publications;
  std::optional<TensorMemory> memory;
  std::unique_ptr<Way> way;  ///< of all edges but the viewed ones
  std::unique_ptr<Way> views;
  std::optional<Neighbours> neighbours;
  std::optional<StepEnds> step_ends;
  Ends ends;
  std::optional<ExecutorStats> shown;
  std::optional<StepRunner> runner;  ///< destroyed first: its threads use the others
};

Executor ExecutorAccess::make(World& world, const Graph& graph, Kernels kernels,
                              const ExecutorOptions& options, const MakeWay& make_way) {
  return control_call("executor", [&] {
    auto state = std::make_shared<Executor::State>(world, std::move(kernels));
    state->is_by_slots = !make_way && options.way != EdgeWay::rendezvous;
    Agreement& agreement = state->agreement.emplace(state->world, options.name, options.start);
    const std::vector<Agreement::Place> places = agreement.places();
    const auto together = [&](const auto& act) {
      Status problem;
      try {
        act();
      } catch (const Error& error) {
        problem = error.status();
      } catch (const std::bad_alloc&) {
        problem = Status(ErrorDetail{.code = Code::exhausted, .message = "out of memory"});
      } catch (const std::exception& error) {
        problem = Status(error_detail(Code::system, "executor", error.what()));
      } catch (...) {
        problem = Status(error_detail(Code::system, "executor", "an exception of unknown type"));
      }
      agreement.settle(graph, options.way, problem);
    };
    together([&] { state->prepare(graph, places, options); });
    // No rank waits for what another can't expose.
    together([&] { state->expose(options); });
    // No rank runs a step, and perhaps leaves, while others still attach to it.
    together([&] { state->attach(options, make_way); });
    return Executor(std::move(state));
  });
}

Executor::Executor(World& world, const Graph& graph, Kernels kernels,
                   const ExecutorOptions& options)
    : Executor(ExecutorAccess::make(world, graph, std::move(kernels), options, {})) {}

Executor::Executor(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&& other) noexcept {
  if (this == &other) return *this;
  const Executor old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
Executor::~Executor() {
  // A fork has none of the threads that seem to wait here, nor the memory that is written here.
  if (state_ && is_fork(state_->world))
    new (std::nothrow) std::shared_ptr<State>(std::move(state_));
}

const Plan& Executor::plan() const noexcept { return state_ ? state_->plan : nothing<Plan>(); }

Tensor Executor::feed(std::string_view name) {
  require_usable(state_, "Executor", "feed");
  return control_call("feed", [&] { return state_->feed_memory(name, nullptr); });
}

Tensor Executor::feed(std::string_view name, const Shape& shape) {
  require_usable(state_, "Executor", "feed");
  return control_call("feed", [&] { return state_->feed_memory(name, &shape); });
}

Tensor Executor::variable(std::string_view name) {
  require_state(state_, "Executor", "variable");
  return control_call("variable", [&] {
    return state_->memory->variable(state_->find(name, Work::variable, "variable"));
  });
}

void Executor::bind(std::string_view variable, const Tensor& memory) {
  require_usable(state_, "Executor", "bind");
  control_call("bind", [&] { state_->bind(variable, memory); });
}

std::uint64_t Executor::step() const noexcept { return state_ ? state_->runner->step() : 0; }

void Executor::resume(std::uint64_t step) noexcept {
  if (state_) state_->runner->set_step(step);
}

Result<Tensors> Executor::run(const Tensors& feeds, Deadline deadline) noexcept {
  if (!is_usable(state_)) return unusable(state_, "Executor", "run");
  return returned([&]() -> Result<Tensors> {
    Result<Tensors> fetched = state_->runner->run(state_->checked(feeds), deadline);
    if (fetched.ok()) state_->step_ends->tell_step();
    return fetched;
  });
}

ExecutorCounters Executor::counters() const noexcept {
  return state_ ? state_->runner->counters() : ExecutorCounters{};
}

ExecutorReport Executor::report() const {
  require_state(state_, "Executor", "report");
  return control_call("report", [&] {
    ExecutorReport report =
        make_report(state_->world, state_->plan, state_->ends, state_->runner->activity());
    report.sites = state_->memory->sites();
    return report;
  });
}

Executor ExecutorAccess::again(const std::weak_ptr<void>& executor) noexcept {
  return Executor(std::static_pointer_cast<Executor::State>(executor.lock()));
}

}  // namespace weft::dataflow
