// [hang]
#include <chrono>
#include <cstdio>
#include <thread>
#include <weft/weft.hpp>

// A ring in which rank 1 forgets its third put, and goes off to do something else.
int main() try {
  weft::World world = weft::World::join();
  const weft::SlotSpec spec{.name = "ring", .shape = {1}};
  weft::Slot slot = world.expose(spec);
  weft::RemoteSlot next = world.attach((world.rank() + 1) % world.size(), spec);
  const weft::Tensor token = world.allocate(spec.dtype, spec.shape);
  token.as<float>()[0] = 1.0F;
  for (int step = 1; step <= 5; ++step) {
    if (world.rank() == 1 && step == 3) std::this_thread::sleep_for(std::chrono::minutes(10));
    next.put(token).wait().or_throw();
    (void)slot.wait().value();
  }
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
