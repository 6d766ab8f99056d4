// A dataflow graph of two ranks, whose executor, checkpoints and table variables live when a rank
// forks.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "tests/ranks/checks.hpp"
#include "weft/variables.hpp"

namespace weft::tests {

/// Each rank computes a gradient for the table; rank 1 fetches rank 0's.
inline dataflow::Graph graph_in_fork() {
  dataflow::Graph graph;
  dataflow::TensorId sent;
  for (const int rank : {0, 1}) {
    graph.place_next({rank});
    const std::string worker = "@" + std::to_string(rank);
    const auto w = graph.variable("w" + worker, DType::f32, {64});
    const auto gradient = graph.variable("w/gradient" + worker, DType::f32, {64});
    const auto found = graph.add("Relu", {w}, {}, "found" + worker);
    graph.assign(gradient, found, "push" + worker);
    if (rank == 0) sent = found;
  }
  graph.fetch(sent, "out", {1});
  return graph;
}

inline dataflow::Kernels kernels_in_fork() {
  dataflow::Kernels kernels;
  kernels.add("Relu", [](dataflow::KernelCall& call) {
    const Tensor& out = call.output(0);
    std::memcpy(out.data(), call.input(0).data(), out.bytes());
  });
  return kernels;
}

class GraphInFork {
 public:
  GraphInFork(World& world, pslib::Table& table, const std::string& folder)
      : world_(world),
        table_(table),
        folder_(folder),
        executor_(world, graph_in_fork(), kernels_in_fork(), {.name = "forked", .threads = 2}),
        variables_(world, executor_, table),
        saved_(world, executor_, {.folder = folder, .every = 2}) {}

  /// One step with the other rank.
  void step(Checks& checks) {
    const auto fetched = variables_.run();
    checks.expect(fetched.ok(), "a step: " + fetched.status().text());
    const Status pulled = variables_.pull();
    checks.expect(pulled.ok(), "a pull: " + pulled.text());
    const Status saved = saved_.step_ended();
    checks.expect(saved.ok(), "a checkpoint: " + saved.text());
  }

  /// In a fork.
  void check(const std::function<void(const std::string& call, Code)>& expect_forked) {
    const auto thrown_by = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code();
      }
      return Code::ok;
    };
    expect_forked("executor", thrown_by([&] {
                    dataflow::Executor(world_, graph_in_fork(), kernels_in_fork(),
                                       {.name = "another"});
                  }));
    expect_forked("run", executor_.run().status().code());
    expect_forked("run of table variables", variables_.run().status().code());
    expect_forked("executor report", thrown_by([&] { (void)executor_.report(); }));
    expect_forked("checkpoints", thrown_by([&] {
                    pslib::VariableCheckpoints(world_, executor_, {.folder = folder_, .every = 1},
                                               "another");
                  }));
    for (int i = 0; i < 2; ++i) expect_forked("step_ended", saved_.step_ended().code());
    expect_forked("table variables",
                  thrown_by([&] { pslib::TableVariables(world_, executor_, table_); }));
  }

 private:
  World& world_;
  pslib::Table& table_;
  const std::string folder_;
  dataflow::Executor executor_;
  pslib::TableVariables variables_;
  pslib::VariableCheckpoints saved_;
};

}  // namespace weft::tests
