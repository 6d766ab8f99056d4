// A race planted in slot memory: the owner goes on writing into a buffer that it has published, and
// the reader, having let its view go, goes on reading. ThreadSanitizer must report it: the ranks of
// an in-process job share one mapping, so it sees both accesses.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "runtime/bootstrap/in_process.hpp"

namespace {

constexpr int kRounds = 200;

void write_without_waiting(const weft::Tensor& buffer) {
  for (auto& element : buffer.as<float>()) element += 1.0F;
}

float read_without_waiting(const weft::Tensor& buffer) {
  float sum = 0;
  for (const float element : buffer.as<float>()) sum += element;
  return sum;
}

}  // namespace

int main() {
  const weft::SlotSpec spec{.name = "raced",
                            .dtype = weft::DType::f32,
                            .shape = {1024},
                            .depth = 1,
                            .writer = weft::Writer::owner,
                            .flow = weft::Flow::unsafe_synchronous};
  // Relaxed on purpose: it keeps the two busy at the same time and orders nothing.
  std::atomic<bool> done = false;
  weft::run_ranks(2, [&](weft::World& world) {
    if (world.rank() == 0) {
      auto slot = world.expose(spec);
      const auto buffer = slot.next().value();
      slot.publish().or_throw();
      while (!done.load(std::memory_order_relaxed)) write_without_waiting(buffer);
    } else {
      auto remote = world.attach(0, spec);
      auto view = remote.view().value();
      const auto buffer = view.tensor();
      view.release();
      float sum = 0;
      for (int round = 0; round < kRounds; ++round) {
        sum += read_without_waiting(buffer);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      done.store(true, std::memory_order_relaxed);
      std::printf("read %g\n", static_cast<double>(sum));
    }
  });
  return 0;
}
