#include "benchmarks/convergence/course.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "benchmarks/workloads/rpc_way.hpp"
#include "lessons/training.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"

namespace weft::bench {
namespace {

dataflow::ExecutorOptions options_of(std::string_view way) {
  dataflow::ExecutorOptions options{.name = "fig9", .way = dataflow::EdgeWay::slots};
  if (way == kByViews) options.way = dataflow::EdgeWay::views;
  if (way == kByCopies) options.sent = dataflow::SentMemory::plain;
  return options;
}

}  // namespace

Course train(World& world, const Subject& subject, int steps, const MakeExecutor& make_executor) {
  const auto lesson = subject.make();
  dataflow::Executor executor =
      make_executor(world, lessons::graph_of(*lesson, world.size()), lesson->kernels());
  lessons::Training training(executor, *lesson, world.rank());
  Course course;
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    course.losses.push_back(training.step());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    course.seconds.push_back(spent.count());
  }
  return course;
}

MakeExecutor executor_by(std::string_view way) {
  if (way == kByRpcEdges)
    return [](World& world, const dataflow::Graph& graph, dataflow::Kernels kernels) {
      return dataflow::ExecutorAccess::make(
          world, graph, std::move(kernels), options_of(kByRpcEdges),
          [](World& on, const dataflow::Plan&) { return make_rpc_way(on); });
    };
  for (const std::string_view one : {kByViews, kBySlots, kByCopies})
    if (one == way)
      return [one](World& world, const dataflow::Graph& graph, dataflow::Kernels kernels) {
        return dataflow::Executor(world, graph, std::move(kernels), options_of(one));
      };
  throw std::out_of_range("weft has no way '" + std::string(way) + "'");
}

std::string to_line(const Course& course) {
  return nlohmann::json{{"seconds", course.seconds}, {"losses", course.losses}}.dump();
}

Course course_in(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("losses")) return {json.at("seconds"), json.at("losses")};
  }
  throw std::runtime_error("the run printed no losses");
}

}  // namespace weft::bench
