// Ranks that put to each other in a ring until they are killed: busy_rank
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "weft/world.hpp"

int main() {
  using namespace weft;
  World world = World::join();
  const SlotSpec spec{.name = "ring", .dtype = DType::i64, .shape = {1}, .depth = 2};
  auto slot = world.expose(spec);
  auto remote = world.attach((world.rank() + 1) % world.size(), spec);
  const auto tensor = world.allocate(spec.dtype, spec.shape);
  std::printf("joined rank %d pid %d\n", world.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  for (const auto end = Deadline::after(std::chrono::seconds(60)); !end.passed();)
    if (!remote.put(tensor).wait().ok() || !slot.wait().ok()) return 3;
  return 0;
}
