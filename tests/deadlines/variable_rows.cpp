// Variables of a graph: in a table that rank 1 serves, and in checkpoints.
#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include "tests/deadlines/row.hpp"
#include "weft/variables.hpp"

namespace weft::tests {
namespace {

constexpr auto kVariablesSetUp = std::chrono::seconds(10);

dataflow::Kernels kernels_of_scale() {
  dataflow::Kernels kernels;
  kernels.add("weft.Scale", [](dataflow::KernelCall& call) {
    std::ranges::fill(call.output(0).as<float>(), 1.0F);
  });
  return kernels;
}

/// A variable and its gradient on rank 0.
class InATable {
 public:
  explicit InATable(Side& side) : server_(side.world, options(), side.named("ps")) {
    dataflow::Graph graph;
    graph.place_next({.rank = 0});
    const std::array variables{graph.variable("w", DType::f32, {4096})};
    const std::array gradients{graph.add("weft.Scale", {variables[0]}, {{"factor", 0.1}})};
    pslib::push_gradients(graph, gradients, variables);
    executor_.emplace(side.world, graph, kernels_of_scale(),
                      dataflow::ExecutorOptions{.name = side.named("graph")});
    table_.emplace(server_.table("model", pslib::table_specs(graph, variables),
                                 pslib::Optimizer::sgd(0.1F), Deadline::after(kVariablesSetUp)));
    if (!side.calls()) {
      serving_ = std::thread([this] {
        const std::array tables{&*table_};
        (void)server_.serve(tables);
      });
      return;
    }
    table_->initialize(Deadline::after(kVariablesSetUp)).or_throw();
    bound_.emplace(side.world, *executor_, *table_);
  }
  InATable(const InATable&) = delete;
  InATable& operator=(const InATable&) = delete;
  ~InATable() {
    if (serving_.joinable()) serving_.join();
  }

  /// With a push that its next pull needs rank 1 for.
  pslib::TableVariables& bound() {
    (void)bound_->run({}, Deadline::after(kVariablesSetUp));
    return *bound_;
  }

 private:
  static pslib::Options options() {
    pslib::Options options;
    options.workers = {0};
    options.servers = {1};
    return options;
  }

  pslib::ParameterServer server_;
  std::optional<dataflow::Executor> executor_;
  std::optional<pslib::Table> table_;
  std::optional<pslib::TableVariables> bound_;
  std::thread serving_;
};

template <typename Call>
Case in_a_table(Side& side, const Call& call) {
  auto model = std::make_shared<InATable>(side);
  if (side.calls())
    return {.call = [=](Deadline deadline) { return said(call(model->bound(), deadline)); }};
  return {.end = [model] {}};
}

Case makes_checkpoints(Side& side) {
  dataflow::Graph graph;
  graph.place_next({.rank = 0});
  graph.variable("w", DType::f32, {16});
  const auto executor =
      std::make_shared<dataflow::Executor>(side.world, graph, dataflow::Kernels(),
                                           dataflow::ExecutorOptions{.name = side.named("graph")});
  pslib::CheckpointOptions options;
  options.folder = std::filesystem::path(side.token_file).parent_path() / side.named("saved");
  options.every = 1;
  const auto make = [=, world = &side.world](Deadline deadline) {
    return thrown([&] {
      const pslib::VariableCheckpoints saved(*world, *executor, options, "graph", deadline);
    });
  };
  if (side.calls()) return {.call = make};
  return {.part = [=] { (void)make(Deadline::after(std::chrono::milliseconds(200))); }};
}

}  // namespace

std::vector<Row> variable_rows() {
  using pslib::TableVariables;
  return {
      {"TableVariables::run",
       [](Side& side) {
         return in_a_table(side, [](TableVariables& v, Deadline d) { return v.run({}, d); });
       }},
      {"TableVariables::pull",
       [](Side& side) {
         return in_a_table(side, [](TableVariables& v, Deadline d) { return v.pull(d); });
       }},
      {"VariableCheckpoints::VariableCheckpoints", makes_checkpoints},
  };
}

}  // namespace weft::tests
