#include "benchmarks/workloads/graph_replay.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

using dataflow::Definition;
using dataflow::Definitions;
using dataflow::Graph;
using dataflow::Inference;
using dataflow::KernelCall;
using dataflow::PartialShape;
using dataflow::Reuse;
using dataflow::TensorId;
using dataflow::TensorType;

std::vector<TensorType> as_first_input(const Inference& node) { return {node.input(0)}; }

Definitions definitions() {
  Definitions all = Definitions::standard();
  all.add({.name = "bench.Backward",
           .inputs = {{"parameter"}},
           .outputs = {{"gradient"}},
           .infer = as_first_input});
  all.add({.name = "bench.Update",
           .inputs = {{"parameter"}, {"of_0"}, {"of_1"}},
           .outputs = {{"new_parameter"}},
           .infer = as_first_input,
           .reuses = {{.input = 0, .output = 0, .kind = Reuse::Kind::must}}});
  return all;
}

std::string name_of(std::size_t part) { return "w" + std::to_string(part); }

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape().elements());
}

}  // namespace

GraphReplay::GraphReplay(const Model& model) : model_(model), graph_(definitions()) {
  const std::vector<Part> parts = parts_of(model);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const dataflow::Placement server{parts[i].server};
    graph_.place_next(server);
    const TensorId parameter =
        graph_.variable(name_of(i), DType::f32, {static_cast<std::int64_t>(parts[i].count)});
    std::vector<TensorId> inputs{parameter};
    for (const int worker : {0, 1}) {
      graph_.place_next({worker});
      inputs.push_back(graph_.add("bench.Backward", {parameter}, {},
                                  "g" + std::to_string(i) + "@" + std::to_string(worker)));
    }
    graph_.place_next(server);
    graph_.add("bench.Update", inputs, {}, "new " + name_of(i));
  }
}

dataflow::Kernels GraphReplay::kernels(int rank) {
  dataflow::Kernels kernels;
  kernels.add("bench.Backward", [this, rank](KernelCall& call) {
    touch(call.input(0).data(), call.input(0).bytes());
    const Tensor& gradient = call.output(0);
    fill_gradient(gradient.as<float>().data(), count_of(gradient),
                  steps_ + static_cast<std::uint64_t>(rank));
  });
  kernels.add("bench.Update", [](KernelCall& call) {
    const Tensor& parameter = call.output(0);
    apply_gradients(parameter.as<float>().data(), call.input(1).as<float>().data(),
                    call.input(2).as<float>().data(), count_of(parameter));
  });
  return kernels;
}

void GraphReplay::step(dataflow::Executor& executor) {
  ++steps_;
  expected_.add(steps_);
  expected_.add(steps_ + 1);
  executor.run().status().or_throw();
}

void GraphReplay::check(dataflow::Executor& executor, int rank) const {
  const std::vector<Part> parts = parts_of(model_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].server != rank) continue;
    const Tensor parameter = executor.variable(name_of(i));
    if (!expected_.match(parameter.as<float>().data(), count_of(parameter)))
      throw std::runtime_error("wrong data: " + name_of(i) + " of " + std::string(model_.name));
  }
}

}  // namespace weft::bench
