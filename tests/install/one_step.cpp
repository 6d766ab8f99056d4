// A user's program with weft::operators: one step of a small graph, as a world of one.
#include <cstdio>
#include <weft/operators.hpp>
#include <weft/world.hpp>

int main() try {
  using namespace weft::dataflow;
  weft::World world = weft::World::join();
  Graph graph;
  graph.place_next({0});
  const TensorId x = graph.feed("x", weft::DType::f32, {1, 2});
  const TensorId w = graph.feed("w", weft::DType::f32, {2, 1});
  graph.fetch(graph.add("Relu", {graph.add("MatMul", {x, w})}), "y");
  float result = 0;
  {
    Executor executor(world, graph, operators());
    const Tensors feeds{{"x", executor.feed("x")}, {"w", executor.feed("w")}};
    for (const auto& [name, feed] : feeds) {
      feed.as<float>()[0] = 3;
      feed.as<float>()[1] = 4;
    }
    result = executor.run(feeds).value().at("y").as<float>()[0];
  }
  world.leave().or_throw();
  return result == 25 ? 0 : 1;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
