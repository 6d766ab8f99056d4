// A rank that has reduced a few tensors and left waits for no word that never comes.
#include <chrono>
#include <cstdio>
#include <optional>

#include "weft/collective.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;

/// Less than the second that an end waits at most for the others' word; on a loaded machine eight
/// ranks need some time.
constexpr std::chrono::milliseconds kLimit{900};

void reduce(World& world) {
  Collectives all = Collectives::open(world);
  const Tensor tensor = world.allocate(DType::f32, {1 << 18});
  for (int i = 0; i < 10; ++i) all.run(all_reduce(tensor, Reduction::sum)).or_throw();
  all.run(barrier()).or_throw();
}

}  // namespace

int main() {
  std::optional<World> world(World::join());
  reduce(*world);
  world->leave(Deadline::after(std::chrono::seconds(10))).or_throw();
  const auto left = Clock::now();
  world.reset();
  const auto took = Clock::now() - left;
  if (took < kLimit) return 0;
  std::fprintf(
      stderr, "failed: the end took %lld ms\n",
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  return 1;
}
