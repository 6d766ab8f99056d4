// The C++ side of compare.py: the time of a put, and of a message there and back.
//   mpirun -n 2 python_put_loop
// Prints "put BYTES SECONDS" and "ping_pong BYTES SECONDS", the best of several rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "weft/message.hpp"
#include "weft/weft.hpp"

namespace {

int rounds = 21;

/// The best time of one of `times` calls.
template <typename Call>
double best_of(int times, const Call& call) {
  if (rounds == 1) times = std::max(times / 20, 1);
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / times);
  }
  return best;
}

/// These puts wait for no reader (Flow::unsafe_synchronous), so the call alone is measured.
void measure_puts(weft::World& world, std::int64_t bytes) {
  const weft::SlotSpec spec{.name = "put" + std::to_string(bytes),
                            .dtype = weft::DType::u8,
                            .shape = {bytes},
                            .flow = weft::Flow::unsafe_synchronous};
  weft::Slot slot;
  if (world.rank() == 0) slot = world.expose(spec);
  if (world.rank() == 1) {
    weft::RemoteSlot remote = world.attach(0, spec);
    const weft::Tensor tensor = world.allocate(spec.dtype, spec.shape);
    const int times = bytes < 4096 ? 20'000 : 50;
    const double seconds = best_of(times, [&] { remote.put(tensor).wait().or_throw(); });
    std::printf("put %lld %.4g\n", static_cast<long long>(bytes), seconds);
    std::fflush(stdout);
  }
  weft::Messages messages(world);
  const weft::Tensor token = world.allocate(weft::DType::u8, {1});
  if (world.rank() == 1) messages.send(0, 1, token).or_throw();
  if (world.rank() == 0) (void)messages.recv(1, 1, token).value();
}

void measure_ping_pong(weft::World& world) {
  weft::Messages messages(world);
  const weft::Tensor tensor = world.allocate(weft::DType::u8, {8});
  const int other = 1 - world.rank();
  const double seconds = best_of(5000, [&] {
    if (world.rank() == 0) messages.send(other, 2, tensor).or_throw();
    (void)messages.recv(other, 2, tensor).value();
    if (world.rank() == 1) messages.send(other, 2, tensor).or_throw();
  });
  if (world.rank() == 0) std::printf("ping_pong 8 %.4g\n", seconds);
}

}  // namespace

int main(int argc, char**) try {
  if (argc > 1) rounds = 1;  // --quick
  weft::World world = weft::World::join();
  for (const std::int64_t bytes : {8, 1 << 20, 16 << 20}) measure_puts(world, bytes);
  measure_ping_pong(world);
  world.leave().or_throw();
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
