#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
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

// [any order]
void any_order(weft::World& world) {
  if (world.rank() != 0) return;
  weft::Slot orphan;
  weft::Tensor kept;
  {
    const std::string token(32, 'x');  // a world of one rank, beside the job's
    weft::World alone =
        weft::World::join({.rank = 0, .size = 1, .address = "127.0.0.1:29411", .token = token});
    orphan = alone.expose({.name = "short-lived", .shape = {1}});
    kept = alone.allocate(weft::DType::f32, {1});
    kept.as<float>()[0] = 7.0F;
  }  // the world goes first
  std::printf("%s\n", orphan.wait().status().text().c_str());
  std::printf("%s\n", weft::Slot().wait().status().text().c_str());
  std::printf("the tensor still has %g\n", kept.as<float>()[0]);
}
// [end]
