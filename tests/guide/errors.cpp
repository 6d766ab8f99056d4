#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <weft/weft.hpp>

#include "tests/guide/samples.hpp"

// [timeout]
void timeouts(weft::World& world) {
  using std::chrono::milliseconds;
  const weft::SlotSpec spec{.name = "slow", .shape = {1}};
  if (world.rank() == 0) {
    weft::Slot slot = world.expose(spec);
    for (int waits = 1;; ++waits) {
      const weft::Result<weft::Arrival> got = slot.wait(weft::Deadline::after(milliseconds(50)));
      if (got.ok()) {
        std::printf("came at last: %s\n", got->tensor().text().c_str());
        return;
      }
      if (got.code() != weft::Code::timeout) got.status().or_throw();
      if (waits == 1) std::printf("%s\n", got.status().text().c_str());
      // Nothing is lost: do something else, and wait again.
    }
  } else if (world.rank() == 1) {
    weft::RemoteSlot remote = world.attach(0, spec);
    std::this_thread::sleep_for(milliseconds(200));
    const weft::Tensor tensor = world.allocate(spec.dtype, spec.shape);
    tensor.as<float>()[0] = 1.0F;
    remote.put(tensor).wait().or_throw();
  }
}
// [end]

// [mismatch]
void mismatch(weft::World& world) {
  weft::Collectives group = weft::Collectives::open(world);
  weft::Slot slot;
  if (world.rank() == 0) slot = world.expose({.name = "four", .shape = {4}});
  if (world.rank() == 1) {
    try {
      const weft::SlotSpec five{.name = "four", .shape = {5}};
      weft::RemoteSlot remote = world.attach(0, five);
    } catch (const weft::Error& error) {  // a control call throws
      std::printf("%s\n", error.what());
    }
    weft::RemoteSlot remote = world.attach(0, "four");  // as the owner declared it
    const weft::Tensor wrong = world.allocate(weft::DType::f32, {5});
    const weft::Status refused = remote.put(wrong).wait();  // a call on the data path returns
    if (refused.code() == weft::Code::mismatch) std::printf("%s\n", refused.text().c_str());
  }
  group.run(weft::barrier()).or_throw();
}
// [end]
