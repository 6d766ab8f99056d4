// Gets by one copy from the owner's memory: who pins that, and what holds its versions.
#include <chrono>
#include <string>
#include <vector>

#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kRead = 500;

PublishedSpec spec_of(const std::string& name, Memory memory = {}, std::uint32_t depth = 2,
                      Flow flow = Flow::credits) {
  return {.name = name, .shape = {kRead}, .depth = depth, .flow = flow, .memory = memory};
}

void publish_version(World& world, PublishedSlot& slot, float first) {
  auto values = counted(kRead, first);
  world.copy(Tensor::wrap(values.data(), DType::f32, {kRead}), slot.next().value());
  slot.publish().or_throw();
}

Tensor gpu_tensor(World& world) { return world.allocate(DType::f32, {kRead}, Memory::gpu(0)); }

using MappedGets = OnStandInStreams;

/// The owner's GPU and the readers' use the same mapping, which the driver pins once.
TEST_F(MappedGets, ShareThePinOfOneProcessWhoeverIsFirst) {
  for (const bool owner_is_first : {true, false}) {
    ASSERT_EQ(control()->restart(options()), std::vector<std::string>{});
    run_on(3, settings().with(Setting::fabric, "shm"), [&](World& world) {
      const auto got = [](int rank) {
        return SlotSpec{.name = "got" + std::to_string(rank), .shape = {1}, .depth = 2};
      };
      if (world.rank() == 0) {
        std::vector<Slot> readers;
        for (const int rank : {1, 2}) readers.push_back(world.expose(got(rank)));
        const auto await_readers = [&] {
          for (Slot& reader : readers) reader.wait().value();
        };
        PublishedSlot host = world.expose_published(spec_of("host"));
        PublishedSlot gpu = world.expose_published(spec_of("gpu", Memory::gpu(0)));
        if (!owner_is_first) {
          publish_version(world, host, 1);
          await_readers();
        }
        OwnStream own(world, 0, kRead, 1);
        Gate gate;
        own.fill(0, gpu.next().value(), 2);
        EXPECT_OK_STATUS(gpu.publish(own.get()));
        own.synchronize();
        if (owner_is_first) publish_version(world, host, 1);
        if (owner_is_first) await_readers();
        await_readers();
        gate.hold(own);
        (void)gpu.next().value();
        EXPECT_OK_STATUS(gpu.publish(own.get(), Deadline::after(milliseconds(500))))
            << "the stream waits, not the thread: the memory is pinned";
        gate.open();
        own.synchronize();
        await_readers();
      } else {
        RemoteSlot tell = world.attach(0, got(world.rank()));
        const Tensor into = gpu_tensor(world);
        const Tensor word = world.allocate(DType::f32, {1});
        float first = 1;
        for (const char* name : {"host", "gpu"}) {
          PublishedReader reader = world.attach_published(0, name);
          reader.get(into).or_throw();
          EXPECT_EQ(seen_by_application(world, into), counted(kRead, first++));
          const EdgeReport edge = edge_of(world, name, Role::views);
          EXPECT_EQ(edge.way, "mapped") << edge.reason;
          EXPECT_EQ(edge.counters.staged_bytes, 0U);
          tell.put(word).wait().or_throw();
        }
        tell.put(word).wait().or_throw();
      }
    });
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

TEST_F(MappedGets, TellTheOwnerOfASynchronousSlotThatTheyHaveRead) {
  for (const bool behind_stream : {false, true})
    run_on(1, settings().with(Setting::check, "flow"), [&](World& world) {
      PublishedSlot slot = world.expose_published(spec_of("news", {}, 1, Flow::unsafe_synchronous));
      PublishedReader reader = world.attach_published(0, "news");
      const Tensor into = gpu_tensor(world);
      OwnStream own(world, 0, kRead, 1);
      for (int version = 1; version <= 3; ++version) {
        publish_version(world, slot, static_cast<float>(version));
        EXPECT_OK_STATUS(behind_stream ? reader.get(into, own.get()) : reader.get(into));
        own.synchronize();
        EXPECT_EQ(seen_by_application(world, into), counted(kRead, static_cast<float>(version)));
      }
    });
}

TEST_F(MappedGets, ThatAreLateHoldNothingOnceAnotherReadHasBegun) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(40)}), std::vector<std::string>{});
  for (const bool views : {false, true})
    run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
      PublishedSlot slot = world.expose_published(spec_of("news", {}, 1));
      PublishedReader reader = world.attach_published(0, "news");
      const Tensor host = world.allocate(DType::f32, {kRead});
      publish_version(world, slot, 1);
      EXPECT_EQ(reader.get(gpu_tensor(world), Deadline::after(std::chrono::nanoseconds(1))).code(),
                Code::timeout);
      EXPECT_EQ(slot.next(Deadline::after(milliseconds(5))).status().code(), Code::timeout);
      if (views) {
        EXPECT_EQ(elements_of(world, reader.view().value().tensor()), counted(kRead, 1));
      } else {
        EXPECT_OK_STATUS(reader.get(host));
        EXPECT_EQ(elements_of(world, host), counted(kRead, 1));
      }
      EXPECT_TRUE(slot.next(Deadline::after(std::chrono::seconds(5))).ok());
      // The copy goes on, and keeps the tensor until a later one has looked after it.
      EXPECT_TRUE(soon([&] {
        world.copy(host, host);
        for (const ArenaReport& arena : world.report().arenas)
          if (arena.sort == "GPU 0") return arena.used_bytes == 0;
        return false;
      }));
    });
}

/// Memory can't be pinned while a stream of the rank waits, and may not be staged for that.
TEST_F(MappedGets, ArePinnedOnceNoStreamWaits) {
  run_on(2, settings().with(Setting::fabric, "shm").with(Setting::log, "off"), [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(spec_of("news"));
      publish_version(world, slot, 1);
      meet(world);
      return;
    }
    PublishedReader reader = world.attach_published(0, "news");
    PublishedSlot mine = world.expose_published(spec_of("mine"));
    PublishedReader from_mine = world.attach_published(1, "mine");
    const Tensor into = gpu_tensor(world);
    OwnStream own(world, 0, kRead, 1);
    EXPECT_OK_STATUS(from_mine.get(gpu_tensor(world), own.get()));
    EXPECT_TRUE(tells(reader.get(into, Deadline::after(milliseconds(20))), Code::timeout,
                      {"get", "memory is to be pinned first"}));
    publish_version(world, mine, 2);
    own.synchronize();
    EXPECT_OK_STATUS(reader.get(into));
    EXPECT_EQ(seen_by_application(world, into), counted(kRead, 1));
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_EQ(edge.way, "mapped") << edge.reason;
    EXPECT_EQ(edge.counters.staged_bytes, 0U);
    meet(world);
  });
}

TEST_F(MappedGets, BehindStreamsAreStagedWhereTheDriverPinsNothing) {
  run_on(1, [&](World& world) {
    PublishedSlot slot = world.expose_published(spec_of("news"));
    PublishedReader reader = world.attach_published(0, "news");
    const Tensor into = gpu_tensor(world);
    publish_version(world, slot, 1);
    OwnStream own(world, 0, kRead, 1);
    control()->refuse("cuMemHostRegister_v2", 2, DriverStatus::not_supported);  // behind the words
    EXPECT_OK_STATUS(reader.get(into, own.get()));
    own.read(0, into);
    own.synchronize();
    EXPECT_EQ(own.elements(0), counted(kRead, 1));
    const EdgeReport edge = edge_of(world, "news", Role::views);
    EXPECT_EQ(edge.way, "staged");
    EXPECT_NE(edge.reason.find("does not pin the owner's memory"), std::string::npos)
        << edge.reason;
    EXPECT_EQ(edge.counters.staged_bytes, 4 * kRead);
  });
}

}  // namespace
}  // namespace weft::tests
