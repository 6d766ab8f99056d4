// [publisher]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <weft/pslib.hpp>
#include <weft/weft.hpp>

int main() try {  // a rank of the job
  weft::World world = weft::World::join();
  if (world.rank() == 0) {
    weft::pslib::Publisher publisher(world);
    weft::pslib::Publication policy =
        publisher.publication("policy", {{"w", weft::DType::f32, {3}}});
    const weft::Tensor w = world.allocate(weft::DType::f32, {3});
    while (policy.statistics().subscribers == 0)  // only so that this short job has a reader
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (std::uint64_t step = 10; step <= 30; step += 10) {
      std::ranges::fill(w.as<float>(), static_cast<float>(step));
      policy.publish({&w, 1}, step).or_throw();  // copies; waits for no reader
    }
    publisher.leave().or_throw();  // connected readers get the last version
  }
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
// [end]
