// Slots with streams: each stream and thread goes on when it may, and not before.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/cuda/slots/streams.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFew = 1000;

SlotSpec spec_of(Memory memory, std::uint32_t depth = 2) {
  return stream_spec(memory, kFew, depth);
}

using StreamOrder = OnStandInStreams;

TEST_F(StreamOrder, KeepsApartTheAttemptsAtOneTensor) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, spec_of({}, 1));
    OwnStream own(world, 0, kFew, 1);
    Gate gate;
    std::vector<Arrival> none;
    for (int attempt = 0; attempt < 5; ++attempt) {
      none.push_back(slot.wait_on(own.get(), Deadline::after(milliseconds(20))).value());
      own.synchronize();
      EXPECT_EQ(slot.wait_on(own.get()).status().code(), Code::timeout);
    }
    for (const Arrival& arrival : none)
      EXPECT_EQ(*arrival.outcome(), static_cast<std::uint32_t>(Code::timeout));
    const Tensor tensor = tensor_of(world, {}, counted(kFew));
    remote.put(tensor).wait().or_throw();
    Arrival arrival = slot.wait_on(own.get()).value();
    own.synchronize();
    EXPECT_EQ(*arrival.outcome(), 0U);
    gate.hold(own);
    EXPECT_OK_STATUS(arrival.release(own.get()));
    // The stream may read the tensor still, whatever becomes of earlier attempts at it.
    EXPECT_OK_STATUS(none.front().release(own.get()));
    none.clear();
    Request next = remote.put(tensor);
    EXPECT_EQ(next.wait(Deadline::after(milliseconds(100))).code(), Code::timeout);
    gate.open();
    EXPECT_OK_STATUS(next.wait());
    own.synchronize();
  });
}

TEST_F(StreamOrder, WakesAThreadThatWaitsForTheSamePut) {
  run_pair(
      [&](World& world) {
        Slot slot = world.expose(spec_of(Memory::gpu(0)));
        meet(world);
      },
      [&](World& world) {
        RemoteSlot remote = world.attach(0, spec_of({}));
        const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kFew));
        OwnStream own(world, 0, kFew, 1);
        OwnStream other(world, 0, kFew, 1);
        Gate gate;
        remote.put(tensor, own.get()).wait().or_throw();
        gate.hold(own);
        Request request = remote.put(tensor, own.get());
        EXPECT_OK_STATUS(request.wait_on(other.get()));
        const auto begun = std::chrono::steady_clock::now();
        std::thread opener([&] {
          std::this_thread::sleep_for(milliseconds(100));
          gate.open();
        });
        EXPECT_OK_STATUS(request.wait(Deadline::after(std::chrono::seconds(20))));
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
        opener.join();
        other.synchronize();
        meet(world);
      },
      settings().with(Setting::log, "off"));
}

TEST_F(StreamOrder, KeepsTheMemoryOfAClosedSlotUntilStreamsHaveReadIt) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, spec_of({}, 1));
    OwnStream own(world, 0, kFew, 1);
    Gate gate;
    for (float first : {1.0F, 2.0F}) {
      remote.put(tensor_of(world, {}, counted(kFew, first))).wait().or_throw();
      Arrival arrival = slot.wait_on(own.get()).value();
      if (first == 2) gate.hold(own);
      own.read(0, arrival.tensor());
      const std::byte* const lies = arrival.tensor().data();
      EXPECT_OK_STATUS(arrival.release(own.get()));
      if (first == 1) continue;
      remote = RemoteSlot();
      slot = Slot();
      std::vector<Tensor> others;
      const auto is_free = [&] {
        others.push_back(world.allocate(DType::f32, {kFew}, Memory::gpu(0)));
        return others.back().data() == lies;
      };
      for (int i = 0; i < 10; ++i) {
        EXPECT_FALSE(is_free());
        std::this_thread::sleep_for(milliseconds(10));
      }
      gate.open();
      own.synchronize();
      EXPECT_EQ(own.elements(0), counted(kFew, first));
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!is_free() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(5));
      }
      EXPECT_EQ(others.back().data(), lies);
    }
  });
}

TEST_F(StreamOrder, TakesTheDefaultStreamOfTheTensorsGpu) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of(Memory::gpu(1), 1));
    RemoteSlot remote = world.attach(0, spec_of({}, 1));
    const Tensor tensor = tensor_of(world, Memory::gpu(1), counted(kFew));
    const Stream standard = Stream::cuda(nullptr);
    const auto expect_that_it_waits = [&] {
      EXPECT_EQ(control()->take_complaints(), std::vector<std::string>{});
      for (const int gpu : {0, 1}) {
        const OwnContext own(driver(), gpu);
        EXPECT_EQ(driver().query_stream(nullptr),
                  gpu == 0 ? DriverStatus::success : DriverStatus::not_ready);
      }
      (void)control()->take_complaints();  // of the contexts that were made to ask
    };
    remote.put(tensor, standard).wait().or_throw();
    slot.wait().value();
    Arrival arrival = slot.wait_on(standard).value();
    expect_that_it_waits();
    remote.put(tensor).wait().or_throw();
    Request request = remote.put(tensor);
    EXPECT_OK_STATUS(request.wait_on(standard));
    expect_that_it_waits();
    arrival.release();
    EXPECT_OK_STATUS(request.wait());
    Arrival next = slot.wait_on(standard).value();
    EXPECT_OK_STATUS(next.release(standard));
  });
}

TEST_F(StreamOrder, LetsNoThreadOvertakeAStream) {
  ASSERT_EQ(control()->restart(without_exports({.delay = milliseconds(100)})),
            std::vector<std::string>{});
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_of({}));
    OwnStream own(world, 0, kFew, 1);
    std::vector<std::uint64_t> seen;
    for (std::uint64_t turn = 0; turn < 10; turn += 2) {
      for (int i = 0; i < 2; ++i)
        remote.put(tensor_of(world, {}, counted(kFew, 1))).wait().or_throw();
      Arrival first = slot.wait_on(own.get(), Deadline::after(milliseconds(5))).value();
      auto second = slot.wait();
      own.synchronize();
      if (first.outcome() == nullptr || *first.outcome() == 0) {
        seen.push_back(first.sequence());
      } else {
        EXPECT_EQ(second.status().code(), Code::timeout);
        seen.push_back(slot.wait().value().sequence());
        second = slot.wait();
      }
      seen.push_back(second.value().sequence());
    }
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  });
}

TEST_F(StreamOrder, HoldsUpNoCallWhereTheDriverPinsNothing) {
  ASSERT_EQ(control()->restart(without_exports()), std::vector<std::string>{});
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of({}));
    RemoteSlot remote = world.attach(0, spec_of({}));
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kFew, 1));
    OwnStream own(world, 0, kFew, 1);
    Gate gate;
    control()->refuse("cuMemHostRegister_v2", 2, DriverStatus::not_supported);  // behind the words
    remote.put(tensor, own.get()).wait().or_throw();
    slot.wait().value();
    gate.hold(own);
    own.fill(0, tensor, 7);
    std::atomic<bool> is_late{false};
    std::atomic<bool> is_over{false};
    std::thread opener([&] {
      for (int i = 0; i < 500 && !is_over.load(); ++i)
        std::this_thread::sleep_for(milliseconds(10));
      is_late.store(!is_over.load());
      gate.open();
    });
    Request request = remote.put(tensor, own.get());
    EXPECT_EQ(request.wait(Deadline::after(milliseconds(50))).code(), Code::timeout);
    is_over.store(true);
    opener.join();
    EXPECT_FALSE(is_late.load());
    EXPECT_OK_STATUS(request.wait());
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kFew, 7));
  });
}

TEST_F(StreamOrder, TellsAThreadThatWaitsForRoomThatTheWriterHasGone) {
  run_pair(
      [&](World& world) {
        Slot slot = world.expose(spec_of(Memory::gpu(0), 1));
        OwnStream own(world, 0, kFew, 1);
        meet(world);
        Arrival none = slot.wait_on(own.get(), Deadline::after(std::chrono::seconds(20))).value();
        const Status next =
            slot.wait_on(own.get(), Deadline::after(std::chrono::seconds(20))).status();
        EXPECT_EQ(next.code(), Code::peer_left) << next.text();
        own.synchronize();
      },
      [&](World& world) {
        RemoteSlot remote = world.attach(0, spec_of({}, 1));
        meet(world);
        std::this_thread::sleep_for(milliseconds(50));
        world.leave().or_throw();
      },
      settings().with(Setting::log, "off"));
}

TEST_F(StreamOrder, MakesNothingForASecondGpuWhileAStreamWaits) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_of(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_of({}));
    const Tensor tensor = tensor_of(world, {}, counted(kFew));
    const Tensor there = tensor_of(world, Memory::gpu(1), counted(kFew));  // opens the GPU
    OwnStream zero(world, 0, kFew, 1);
    OwnStream one(world, 1, kFew, 1);
    remote.put(tensor).wait().or_throw();
    slot.wait_on(zero.get()).value();
    zero.synchronize();
    Arrival first = slot.wait_on(zero.get()).value();
    std::thread writer([&] {
      std::this_thread::sleep_for(milliseconds(50));
      remote.put(tensor).wait().or_throw();
    });
    Arrival second = slot.wait_on(one.get()).value();  // once no stream waits
    writer.join();
    remote.put(tensor).wait().or_throw();
    one.synchronize();
    EXPECT_EQ(*second.outcome(), 0U);
    EXPECT_OK_STATUS(first.release(zero.get()));
    EXPECT_OK_STATUS(second.release(one.get()));
  });
}

#if defined(WEFT_TEST_FAKE_NIC)
TEST_F(StreamOrder, KeepsStreamsFromATensorThatANicReads) {
  ASSERT_EQ(control()->restart(options_for(Over::nics_with_dma_buf)), std::vector<std::string>{});
  p2p::verbs::fake::FakeNetwork network(with_gpus());
  const p2p::verbs::fake::NicSpec nic{.name = "fake0", .dma_buf = true};
  const auto body = [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec_of(Memory::gpu(0)));
      slot.wait().value();
      const Arrival arrival = slot.wait().value();
      meet(world);  // no stream of the other rank waits now, which a copy to here might keep up
      EXPECT_EQ(elements_of(world, arrival.tensor()), counted(kFew, 1));
    } else {
      RemoteSlot remote = world.attach(0, spec_of({}));
      const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kFew));
      OwnStream own(world, 0, kFew, 2);
      remote.put(tensor, own.get()).wait().or_throw();
      own.fill(0, tensor, 1);
      own.synchronize();
      network.hold(1);
      Request request = remote.put(tensor, own.get());
      EXPECT_OK_STATUS(request.wait_on(own.get()));
      own.fill(1, tensor, 50);
      std::this_thread::sleep_for(milliseconds(50));  // until the put has begun
      remote = RemoteSlot();
      std::this_thread::sleep_for(milliseconds(50));
      network.hold(1, false);
      own.synchronize();
      meet(world);
    }
  };
  run_ranks(2, body, settings().with(Setting::log, "off").with(Setting::fabric, "verbs"),
            [&](int rank) { return network.devices(rank, {nic}); });
  EXPECT_EQ(network.complaints() + network.left_behind(), "");
}
#endif

}  // namespace
}  // namespace weft::tests
