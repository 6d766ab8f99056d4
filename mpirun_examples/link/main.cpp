// A trainer outside weft's tree: every rank sees different points of the line y = 2x + 1, and
// together they fit its slope and offset.
#include <cmath>
#include <cstdio>
#include <exception>

#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

// Returns true if the fit found the line.
bool train(weft::World& world) {
  weft::pslib::ParameterServer server(world);
  weft::pslib::Table line =
      server.table("line", {{"slope", {1}}, {"offset", {1}}}, weft::pslib::Optimizer::sgd(0.1F));
  float& slope = line.parameter("slope").as<float>()[0];
  float& offset = line.parameter("offset").as<float>()[0];
  slope = offset = 0.0F;
  line.initialize().or_throw();

  float& slope_gradient = line.gradient("slope").as<float>()[0];
  float& offset_gradient = line.gradient("offset").as<float>()[0];
  const int ranks = world.size();
  for (int step = 0; step < 500; ++step) {
    const int point = (step * ranks + world.rank()) % 17;
    const float x = static_cast<float>(point) / 8.0F - 1.0F;
    const float error = slope * x + offset - (2.0F * x + 1.0F);
    slope_gradient = 2.0F * error * x;
    offset_gradient = 2.0F * error;
    line.push_pull().or_throw();
  }
  // Leave before the table is destroyed: other ranks may be reading this rank's shard.
  world.leave().or_throw();
  std::printf("rank %d of %d: y = %.3f x + %.3f\n", world.rank(), ranks, slope, offset);
  return std::abs(slope - 2.0F) < 0.01F && std::abs(offset - 1.0F) < 0.01F;
}

}  // namespace

int main() {
  try {
    weft::World world = weft::World::join();
    return train(world) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "line_fit: %s\n", error.what());
    return 1;
  }
}
