// [training]
#include <algorithm>
#include <cstdio>
#include <weft/pslib.hpp>

// Every rank is a worker and has a shard. Rank r draws each element to r, so all meet at the mean.
int main() try {
  weft::World world = weft::World::join();
  weft::pslib::ParameterServer server(world);
  weft::pslib::TableOptions options(weft::pslib::Optimizer::with_momentum(0.1F));
  options.schedule = {.kind = weft::pslib::Schedule::Kind::cosine, .warmup = 5, .period = 195};
  weft::pslib::Table table = server.table("model", {{"w", {8, 4}}, {"b", {4}}}, options);
  for (const auto& tensor : table.specs())  // the first worker's values become everybody's
    std::ranges::fill(table.parameter(tensor.name).as<float>(), 0.0F);
  table.initialize().or_throw();
  for (int step = 0; step < 200; ++step) {
    for (const auto& tensor : table.specs()) {
      const auto parameter = table.parameter(tensor.name).as<float>();
      const auto gradient = table.gradient(tensor.name).as<float>();
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = parameter[i] - static_cast<float>(world.rank());
    }
    table.push_pull().or_throw();  // the mean of the ranks' gradients
  }
  if (world.rank() == 0)
    std::printf("version %lu: w is %.2f\n", table.version(), table.parameter("w").as<float>()[31]);
  world.leave().or_throw();  // other ranks may still read this rank's shard until it returns
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
