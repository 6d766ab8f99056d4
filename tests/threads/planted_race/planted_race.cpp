// A race planted in slot memory, which ThreadSanitizer must report: the ranks of an in-process job
// share one mapping, so it sees both accesses. Two kinds:
//   publish  the owner goes on writing into a buffer that it has published, while a reader that has
//            let its view go reads on
//   put      a writer puts on and on, while the owner reads an arrival that it has let go: here the
//            writes are weft's own copy
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "runtime/world/in_process.hpp"

namespace {

constexpr int kRounds = 200;

template <typename Spec>
Spec spec_for() {
  return {.name = "raced",
          .dtype = weft::DType::f32,
          .shape = {1024},
          .depth = 1,
          .flow = weft::Flow::unsafe_synchronous};
}

void write_without_waiting(const weft::Tensor& buffer) {
  for (auto& element : buffer.as<float>()) element += 1.0F;
}

void read_without_waiting(const weft::Tensor& buffer) {
  float sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const float element : buffer.as<float>()) sum += element;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("read %g\n", static_cast<double>(sum));
}

// `done` is relaxed on purpose: it keeps both threads busy at the same time and orders nothing.
void race_with_publish(weft::World& world, std::atomic<bool>& done) {
  const auto spec = spec_for<weft::PublishedSpec>();
  if (world.rank() == 0) {
    auto slot = world.expose_published(spec);
    const auto buffer = slot.next().value();
    slot.publish().or_throw();
    while (!done.load(std::memory_order_relaxed)) write_without_waiting(buffer);
  } else {
    auto remote = world.attach_published(0, spec);
    auto view = remote.view().value();
    const auto buffer = view.tensor();
    view.release();
    read_without_waiting(buffer);
    done.store(true, std::memory_order_relaxed);
  }
}

void race_with_put(weft::World& world, std::atomic<bool>& done) {
  const auto spec = spec_for<weft::SlotSpec>();
  if (world.rank() == 0) {
    auto slot = world.expose(spec);
    auto arrival = slot.wait().value();
    const auto buffer = arrival.tensor();
    arrival.release();
    read_without_waiting(buffer);
    done.store(true, std::memory_order_relaxed);
  } else {
    auto remote = world.attach(0, spec);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    write_without_waiting(tensor);
    while (!done.load(std::memory_order_relaxed)) {
      remote.put(tensor).wait().or_throw();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool put = argc == 2 && std::string(argv[1]) == "put";
  std::atomic<bool> done = false;
  weft::run_ranks(2, [&](weft::World& world) {
    put ? race_with_put(world, done) : race_with_publish(world, done);
  });
  return 0;
}
