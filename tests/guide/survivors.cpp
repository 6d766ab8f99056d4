// [survivors]
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <weft/weft.hpp>

// Adds up ones until the ranks that are left have done it three times.
int main() try {
  weft::World world = weft::World::join();
  weft::Group members = world.group();
  weft::Collectives group = weft::Collectives::open(world, members);
  const weft::Tensor ones = world.allocate(weft::DType::f32, {1000});
  for (int step = 1; step <= 3;) {
    std::ranges::fill(ones.as<float>(), 1.0F);
    if (step == 2 && world.rank() == 2) std::raise(SIGKILL);
    const weft::Status done = group.run(weft::all_reduce(ones, weft::Reduction::sum));
    if (done.ok()) {
      std::printf("rank %d, step %d: %d ranks\n", world.rank(), step,
                  static_cast<int>(ones.as<float>()[0]));
      ++step;
      continue;
    }
    if (done.code() != weft::Code::peer_failed) done.or_throw();
    std::printf("rank %d: %s\n", world.rank(), done.text().c_str());
    group.settle().or_throw();           // nobody writes this rank's tensors any more
    members = members.shrink().value();  // all survivors get the same group
    group = weft::Collectives::open(world, members);
  }
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
