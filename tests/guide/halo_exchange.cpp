// [halo exchange]
#include <algorithm>
#include <cstdio>
#include <span>
#include <weft/weft.hpp>

// Heat on a ring of cells, of which each rank has six. The halo, a cell at each end, is the
// neighbours' outermost cell.
void halo_exchange(weft::World& world) {
  constexpr std::int64_t kCells = 6;
  const int left = (world.rank() + world.size() - 1) % world.size();
  const int right = (world.rank() + 1) % world.size();
  const weft::Tensor strip = world.allocate(weft::DType::f32, {kCells + 2});
  const std::span<float> cells = strip.as<float>();
  std::ranges::fill(cells, 0.0F);
  if (world.rank() == 0) cells[1] = 1.0F;

  weft::Slot from_left = world.expose({.name = "from the left", .shape = {1}});
  weft::Slot from_right = world.expose({.name = "from the right", .shape = {1}});
  weft::RemoteSlot to_right = world.attach(right, "from the left");
  weft::RemoteSlot to_left = world.attach(left, "from the right");

  for (int step = 0; step < 8; ++step) {
    weft::Request sent_right = to_right.put(strip.part(kCells, {1}));
    weft::Request sent_left = to_left.put(strip.part(1, {1}));
    sent_right.wait().or_throw();
    sent_left.wait().or_throw();
    cells[0] = from_left.wait().value().as<float>()[0];
    cells[kCells + 1] = from_right.wait().value().as<float>()[0];
    float before = cells[0];
    for (std::size_t i = 1; i <= kCells; ++i) {
      const float here = cells[i];
      cells[i] = 0.25F * before + 0.5F * here + 0.25F * cells[i + 1];
      before = here;
    }
  }

  weft::Collectives group = weft::Collectives::open(world);
  const weft::Tensor heat = world.allocate(weft::DType::f32, {1});
  heat.as<float>()[0] = 0.0F;
  for (std::size_t i = 1; i <= kCells; ++i) heat.as<float>()[0] += cells[i];
  group.run(weft::all_reduce(heat, weft::Reduction::sum)).or_throw();
  if (world.rank() == 0) std::printf("heat %g\n", heat.as<float>()[0]);
}
// [end]
