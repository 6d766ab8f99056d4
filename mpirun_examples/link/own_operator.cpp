// An operator of one's own in a graph: its definition, its gradient and its kernels, outside weft's
// tree. The points of the line y = 2x + 1 lie on the last rank, slope and offset on rank 0; weft
// moves both ways what the step needs.
//   mpirun -n 2 own_operator
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "weft/executor.hpp"
#include "weft/weft.hpp"

namespace {

namespace flow = weft::dataflow;
using weft::DType;

constexpr std::int64_t kPoints = 17;

/// The mean squared distance of points (x, y) from a line (slope, offset).
flow::Definition line_error() {
  return {.name = "own.LineError",
          .inputs = {{"line"}, {"x"}, {"y"}},
          .outputs = {{"error"}},
          .infer = [](const flow::Inference& in) -> std::vector<flow::TensorType> {
            if (in.shape(0) != flow::PartialShape{2}) in.refuse("a line has slope and offset");
            if (in.input(1) != in.input(2)) in.refuse("each x has a y");
            return {{DType::f32, flow::PartialShape{}}};
          },
          .gradient = [](flow::GradientBuilder& builder) -> std::vector<flow::TensorId> {
            // Nothing depends on the gradients of the points.
            return {builder.add("own.LineErrorGrad", {builder.gradient(0), builder.input(0),
                                                      builder.input(1), builder.input(2)}),
                    {},
                    {}};
          }};
}

flow::Definition line_error_grad() {
  return {.name = "own.LineErrorGrad",
          .inputs = {{"derror"}, {"line"}, {"x"}, {"y"}},
          .outputs = {{"dline"}},
          .infer = [](const flow::Inference& in) -> std::vector<flow::TensorType> {
            return {in.input(1)};
          }};
}

/// It overwrites the variable that it gets, so it is the variable's assignment.
flow::Definition descend() {
  return {.name = "own.Descend",
          .inputs = {{"variable"}, {"gradient"}},
          .outputs = {{"new"}},
          .attributes = {{"rate", 0.1}},
          .infer = [](const flow::Inference& in) -> std::vector<flow::TensorType> {
            return {in.input(0)};
          },
          .reuses = {{0, 0, flow::Reuse::Kind::must}}};
}

float distance(std::span<const float> line, float x, float y) { return line[0] * x + line[1] - y; }

void compute_error(flow::KernelCall& call) {
  const auto line = call.input(0).as<float>();
  const auto x = call.input(1).as<float>();
  const auto y = call.input(2).as<float>();
  float sum = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(distance(line, x[i], y[i]), 2.0F);
  call.output(0).as<float>()[0] = sum / static_cast<float>(x.size());
}

void compute_error_grad(flow::KernelCall& call) {
  const auto line = call.input(1).as<float>();
  const auto x = call.input(2).as<float>();
  const auto y = call.input(3).as<float>();
  const auto to = call.output(0).as<float>();
  to[0] = to[1] = 0.0F;
  const float share = 2.0F * call.input(0).as<float>()[0] / static_cast<float>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    to[0] += share * distance(line, x[i], y[i]) * x[i];
    to[1] += share * distance(line, x[i], y[i]);
  }
}

void compute_descend(flow::KernelCall& call) {
  const auto gradient = call.input(1).as<float>();
  const auto variable = call.output(0).as<float>();  // the memory of input 0
  const auto rate = static_cast<float>(call.attributes().number("rate"));
  for (std::size_t i = 0; i < variable.size(); ++i) variable[i] -= rate * gradient[i];
}

/// The gradient of a loss begins with a constant of weft's, for which weft::operators has a kernel
/// too.
void compute_fill(flow::KernelCall& call) {
  const auto value = static_cast<float>(call.attributes().number("value"));
  for (float& to : call.output(0).as<float>()) to = value;
}

flow::Graph fit(int last) {
  flow::Definitions definitions = flow::Definitions::standard();
  for (const auto& own : {line_error(), line_error_grad(), descend()}) definitions.add(own);
  flow::Graph graph(definitions);
  graph.place_next({.rank = 0});
  const flow::TensorId line = graph.variable("line", DType::f32, {2});
  graph.place_next({.rank = last});
  const flow::TensorId x = graph.feed("x", DType::f32, {kPoints});
  const flow::TensorId y = graph.feed("y", DType::f32, {kPoints});
  const flow::TensorId error = graph.add("own.LineError", {line, x, y}, {}, "error");
  graph.fetch(error, "the error");
  const flow::TensorId gradient = flow::gradients(graph, error, std::vector{line})[0];
  graph.place_next({.rank = 0});
  graph.add("own.Descend", {line, gradient}, {{"rate", 0.3}}, "new line");
  return graph;
}

/// Returns true if the ranks found the line.
bool train(weft::World& world) {
  const int last = world.size() - 1;
  flow::Kernels kernels;
  kernels.add("own.LineError", compute_error);
  kernels.add("own.LineErrorGrad", compute_error_grad);
  kernels.add("own.Descend", compute_descend);
  kernels.add("weft.Fill", compute_fill);
  flow::Executor executor(world, fit(last), kernels);

  flow::Tensors feeds;
  if (world.rank() == last) {
    for (const char* name : {"x", "y"}) feeds[name] = executor.feed(name);
    for (std::size_t i = 0; i < kPoints; ++i) {
      const float x = static_cast<float>(i) / 8.0F - 1.0F;
      feeds["x"].as<float>()[i] = x;
      feeds["y"].as<float>()[i] = 2.0F * x + 1.0F;
    }
  }
  bool is_fit = true;
  for (int step = 0; step < 100; ++step) {
    const flow::Tensors fetched = executor.run(feeds).value();
    if (world.rank() == last) is_fit = fetched.at("the error").as<float>()[0] < 1e-6F;
  }
  if (world.rank() == 0) {
    const auto line = executor.variable("line").as<float>();
    std::printf("y = %.3f x + %.3f\n", line[0], line[1]);
    is_fit = is_fit && std::abs(line[0] - 2.0F) < 0.01F && std::abs(line[1] - 1.0F) < 0.01F;
  }
  world.leave().or_throw();
  return is_fit;
}

}  // namespace

int main() {
  try {
    weft::World world = weft::World::join();
    return train(world) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_operator: %s\n", error.what());
    return 1;
  }
}
