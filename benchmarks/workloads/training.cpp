#include "benchmarks/workloads/training.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <thread>

namespace weft::bench {
namespace {

using dataflow::AttributeValue;
using dataflow::Definitions;
using dataflow::Inference;
using dataflow::KernelCall;
using dataflow::Parameter;
using dataflow::Reuse;
using dataflow::TensorId;
using dataflow::TensorType;

const TensorType kSignal{DType::f32, {1}};

/// The types of a layer's parts, after the signal of the layer before.
std::vector<TensorType> backward_types(const Inference& node) {
  std::vector<TensorType> types{kSignal};
  for (std::size_t i = 1; i < node.inputs(); ++i) types.push_back(node.input(i));
  return types;
}

Definitions training_definitions() {
  Definitions all = Definitions::standard();
  const Parameter several{"parameters", Parameter::Count::variadic};
  all.add({.name = "bench.Forward",
           .inputs = {{"signal", Parameter::Count::optional}, several},
           .outputs = {{"next"}},
           .attributes = {{"layer", AttributeValue(std::int64_t{0}), true}},
           .infer = [](const Inference&) { return std::vector<TensorType>{kSignal}; }});
  all.add({.name = "bench.Backward",
           .inputs = {{"signal"}, several},
           .outputs = {{"next"}, {"gradients", Parameter::Count::variadic}},
           .attributes = {{"layer", AttributeValue(std::int64_t{0}), true}},
           .infer = backward_types});
  all.add({.name = "bench.Update",
           .inputs = {{"parameter"}, {"gradients", Parameter::Count::variadic}},
           .outputs = {{"new_parameter"}},
           .infer = [](const Inference& node) { return std::vector<TensorType>{node.input(0)}; },
           .reuses = {{.input = 0, .output = 0, .kind = Reuse::Kind::must}}});
  return all;
}

std::string name_of_part(std::size_t part) { return "w" + std::to_string(part); }

std::size_t elements_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape().elements());
}

std::size_t layer_of(const KernelCall& call) {
  return static_cast<std::size_t>(call.attributes().integer("layer"));
}

std::chrono::nanoseconds as_time(double ms) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6));
}

/// parameters -= all gradients, four of them at a time.
void update(KernelCall& call) {
  const Tensor& parameter = call.output(0);
  float* const to = parameter.as<float>().data();
  const std::size_t count = elements_of(parameter);
  const auto gradient = [&](std::size_t i) -> const float* {
    return call.input(i).as<float>().data();
  };
  std::size_t i = 1;
  for (; i + 4 <= call.inputs(); i += 4)
    apply_gradients(to, std::array{gradient(i), gradient(i + 1), gradient(i + 2), gradient(i + 3)},
                    count);
  for (; i + 2 <= call.inputs(); i += 2) apply_gradients(to, gradient(i), gradient(i + 1), count);
  for (; i < call.inputs(); ++i) apply_gradient(to, gradient(i), count);
}

}  // namespace

void Sleeper::sleep(std::chrono::nanoseconds time) {
  constexpr std::chrono::microseconds kShortest{100};
  owed_ += time;
  if (owed_ < kShortest) return;
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(owed_);
  owed_ -= std::chrono::steady_clock::now() - start;
}

ReplayedTraining::ReplayedTraining(const Model& model, int ranks, Compute compute)
    : model_(model),
      ranks_(ranks),
      compute_(compute),
      layers_(layers_of(model)),
      parts_(shares_of(model, ranks)),
      graph_(training_definitions()) {
  set_batch(1);
  std::vector<TensorId> parameters;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    graph_.place_next({parts_[i].server});
    parameters.push_back(
        graph_.variable(name_of_part(i), DType::f32, {static_cast<std::int64_t>(parts_[i].count)}));
  }
  // The inputs of each update: the parameter, and the workers' gradients in their order.
  std::vector<std::vector<TensorId>> updates;
  for (const TensorId parameter : parameters) updates.push_back({parameter});
  for (int rank = 0; rank < ranks; ++rank) add_worker(rank, updates);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    graph_.place_next({parts_[i].server});
    graph_.add("bench.Update", updates[i], {}, "new " + name_of_part(i));
  }
}

void ReplayedTraining::add_worker(int rank, std::vector<std::vector<TensorId>>& updates) {
  graph_.place_next({rank});
  const std::string at = "@" + std::to_string(rank);
  const auto parts_of_layer = [&](const Layer& layer) {
    std::vector<std::size_t> parts;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].tensor >= layer.first && parts_[i].tensor < layer.first + layer.variables)
        parts.push_back(i);
    return parts;
  };
  TensorId signal;
  const auto add = [&](const char* definition, const char* prefix, std::size_t layer) {
    std::vector<TensorId> inputs{signal};
    for (const std::size_t part : parts_of_layer(layers_[layer]))
      inputs.push_back(updates[part].front());
    signal = graph_.add(definition, inputs, {{"layer", static_cast<std::int64_t>(layer)}},
                        prefix + std::to_string(layer) + at);
  };
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) add("bench.Forward", "f", layer);
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    add("bench.Backward", "b", layer);
    std::int32_t output = 0;
    for (const std::size_t part : parts_of_layer(layers_[layer]))
      updates[part].push_back(TensorId{signal.node, ++output});
  }
}

dataflow::Kernels ReplayedTraining::kernels(int rank) {
  dataflow::Kernels kernels;
  kernels.add("bench.Forward", [this](KernelCall& call) {
    for (std::size_t i = 1; i < call.inputs(); ++i)
      touch(call.input(i).data(), call.input(i).bytes());
    call.output(0).as<float>()[0] = 0;
    compute_forward(layer_of(call));
  });
  kernels.add("bench.Backward", [this, rank](KernelCall& call) {
    call.output(0).as<float>()[0] = 0;
    compute_backward(layer_of(call));
    for (std::size_t i = 1; i < call.outputs(); ++i) {
      const Tensor& gradient = call.output(i);
      fill_gradient(gradient.as<float>().data(), elements_of(gradient),
                    steps_ + static_cast<std::uint64_t>(rank));
    }
  });
  kernels.add("bench.Update", update);
  return kernels;
}

void ReplayedTraining::set_batch(std::size_t batch) {
  batch_ = batch;
  times_ = layer_times(model_, batch);
}

void ReplayedTraining::compute_forward(std::size_t layer) {
  if (compute_ == Compute::replayed)
    sleeper_.sleep(as_time(times_[layer].forward_ms));
  else
    products_.multiply(layers_[layer].multiplications * static_cast<double>(batch_));
}

void ReplayedTraining::compute_backward(std::size_t layer) {
  if (compute_ == Compute::replayed)
    sleeper_.sleep(as_time(times_[layer].backward_ms));
  else  // gradients of the weights and of the layer's input
    products_.multiply(2 * layers_[layer].multiplications * static_cast<double>(batch_));
}

void ReplayedTraining::step(dataflow::Executor& executor) {
  ++steps_;
  for (int rank = 0; rank < ranks_; ++rank)
    expected_.add(steps_ + static_cast<std::uint64_t>(rank));
  executor.run().status().or_throw();
}

void ReplayedTraining::check(dataflow::Executor& executor, int rank) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].server != rank) continue;
    const Tensor parameter = executor.variable(name_of_part(i));
    if (!expected_.match(parameter.as<float>().data(), elements_of(parameter)))
      throw std::runtime_error("wrong data: " + name_of_part(i) + " of " +
                               std::string(model_.name));
  }
}

}  // namespace weft::bench
