// guide_on_gpus: the guide's sample on GPUs, as a job of two ranks or more.
#include <algorithm>
#include <cstdio>
#include <weft/weft.hpp>

namespace {

// [on_gpus]
void on_gpus(weft::World& world) {
  const weft::Memory gpu = weft::Memory::gpu();  // this rank's
  const weft::SlotSpec spec{.name = "scores", .shape = {1000}, .memory = gpu};
  const weft::Tensor here = world.allocate(weft::DType::f32, {1000});
  const weft::Tensor there = world.allocate(weft::DType::f32, {1000}, gpu);
  if (world.rank() == 0) {
    weft::Slot slot = world.expose(spec);
    const weft::Arrival arrival = slot.wait().value();  // its tensor lies on rank 0's GPU
    world.copy(arrival.tensor(), here);                 // the processor can't read it there
    std::printf("rank 0 got %g\n", here.as<float>()[0]);
  } else if (world.rank() == 1) {
    std::ranges::fill(here.as<float>(), 7.0F);
    world.copy(here, there);
    weft::RemoteSlot remote = world.attach(0, spec);
    remote.put(there).wait().or_throw();
  }
  weft::Collectives group = weft::Collectives::open(world);
  std::ranges::fill(here.as<float>(), static_cast<float>(world.rank() + 1));
  world.copy(here, there);
  group.run(weft::all_reduce(there, weft::Reduction::sum)).or_throw();  // by the GPUs
  world.copy(there, here);
  std::printf("rank %d has the sum %g\n", world.rank(), here.as<float>()[0]);
}
// [end]

}  // namespace

int main() try {
  weft::World world = weft::World::join();
  on_gpus(world);
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
