// [first put]
#include <cstdio>
#include <weft/weft.hpp>

int main() try {
  weft::World world = weft::World::join();
  const weft::SlotSpec spec{.name = "numbers", .dtype = weft::DType::f32, .shape = {4}, .depth = 2};
  if (world.rank() == 0) {
    weft::Slot slot = world.expose(spec);
    for (int step = 1; step <= 3; ++step) {
      const weft::Arrival arrival = slot.wait().value();
      std::printf("step %d: %g\n", step, arrival.as<float>()[3]);
    }  // here the arrival returns its buffer to the writer
  } else if (world.rank() == 1) {
    weft::RemoteSlot remote = world.attach(0, spec);
    const weft::Tensor tensor = world.allocate(spec.dtype, spec.shape);
    for (int step = 1; step <= 3; ++step) {
      for (float& x : tensor.as<float>()) x = static_cast<float>(10 * step);
      remote.put(tensor).wait().or_throw();  // now the tensor may be written again
    }
  }
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
