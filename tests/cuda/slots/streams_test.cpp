// Slots with streams: the thread goes on at once, and the streams wait.
#include "tests/cuda/slots/streams.hpp"

#include <atomic>
#include <chrono>

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kCount = 3000;
constexpr std::size_t kTurns = 6;

SlotSpec spec_on(Memory memory, std::uint32_t depth = 2) {
  return stream_spec(memory, kCount, depth);
}

class Streams : public OnStandInStreams {
 protected:
  /// Rank 1's stream fills a tensor on its GPU again and again and puts it; rank 0's stream reads
  /// what comes. Neither thread waits. Returns the elements that rank 0 has read.
  /// `chunk`: WEFT_GPU_STAGING.
  static std::vector<std::vector<float>> exchange(Over fabric, std::uint64_t seed = 1,
                                                  const std::string& chunk = "1m") {
    std::vector<std::vector<float>> seen;
    const auto body = [&](World& world) {
      if (world.rank() == 0) {
        Slot slot = world.expose(spec_on(Memory::gpu(0)));
        OwnStream own(world, 0, kCount, kTurns);
        meet(world, "put");
        (void)slot.wait_on(own.get()).value();
        own.synchronize();
        meet(world, "prepared");
        for (std::size_t turn = 0; turn < kTurns; ++turn) {
          Arrival arrival = slot.wait_on(own.get()).value();
          EXPECT_EQ(arrival.sequence(), turn + 2);
          own.read(turn, arrival.tensor());
          EXPECT_OK_STATUS(arrival.release(own.get()));
        }
        own.synchronize();
        for (std::size_t turn = 0; turn < kTurns; ++turn) seen.push_back(own.elements(turn));
        meet(world, "synchronized");
      } else {
        const Tensor tensor = world.allocate(DType::f32, {kCount}, Memory::gpu(0));
        RemoteSlot remote = world.attach(0, spec_on({}));
        OwnStream own(world, 0, kCount, kTurns);
        // All is made, pinned and mapped before a stream waits: the stand-in takes the ranks'
        // streams for those of one process.
        remote.put(tensor, own.get()).wait().or_throw();
        meet(world, "put");
        meet(world, "prepared");
        for (std::size_t turn = 0; turn < kTurns; ++turn) {
          own.fill(turn, tensor, static_cast<float>(turn));
          Request request = remote.put(tensor, own.get());
          EXPECT_OK_STATUS(request.wait_on(own.get()));
        }
        own.synchronize();
        meet(world, "synchronized");
      }
      meet(world);
    };
    run_over(fabric, body, seed, {{Setting::gpu_staging, chunk}});
    return seen;
  }
  static std::vector<std::vector<float>> expected() {
    std::vector<std::vector<float>> all;
    for (std::size_t turn = 0; turn < kTurns; ++turn)
      all.push_back(counted(kCount, static_cast<float>(turn)));
    return all;
  }
};

TEST_F(Streams, OrderPutsAndArrivalsInChunks) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation || moves_by_nic(fabric)) continue;
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(without_exports(options_for(fabric))), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric, 1, "4k"), expected());
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

TEST_F(Streams, OrderPutsAndArrivalsOverEveryFabric) {
  for (const Over fabric : all_fabrics()) {
    if (fabric == Over::simulation) continue;  // an application's wait for its stream is real time
    SCOPED_TRACE(name_of(fabric));
    ASSERT_EQ(control()->restart(options_for(fabric)), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric), expected());
    EXPECT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

TEST_F(Streams, OrderThemWhereWritersStage) {
  for (const Over fabric : {Over::shm, Over::tcp}) {
    ASSERT_EQ(control()->restart(without_exports(options_for(fabric))), std::vector<std::string>{});
    EXPECT_EQ(exchange(fabric), expected());
  }
}

/// As many seeds as WEFT_TEST_STREAM_SEEDS says.
TEST_F(Streams, AreRightHoweverLateTheyAre) {
  const char* const wanted = std::getenv("WEFT_TEST_STREAM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    stand_in::Options lazy{.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(2)};
    if (seed % 2 == 0) lazy = without_exports(lazy);
    ASSERT_EQ(control()->restart(lazy), std::vector<std::string>{});
    ASSERT_EQ(exchange(Over::shm), expected());
    ASSERT_EQ(control()->complaints(), std::vector<std::string>{});
  }
}

/// Planted: the copy of a put does not wait for the stream that fills its tensor.
TEST_F(Streams, AreCaughtIfACopyDoesNotWaitForThem) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_EQ(control()->restart({.seed = seed, .delay = milliseconds(2)}),
              std::vector<std::string>{});
    control()->forget_waits(1000);
    wrong += exchange(Over::shm) == expected() ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(Streams, TakeTensorsOfHostMemoryOnceTheyAreWritten) {
  ASSERT_EQ(control()->restart({.delay = milliseconds(5)}), std::vector<std::string>{});
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    for (const Memory memory : {Memory::host(), Memory::gpu(0)}) {
      SlotSpec spec = spec_on(memory);
      spec.name = memory.text();
      Slot slot = world.expose(spec);
      RemoteSlot remote = world.attach(0, spec);
      const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(kCount, 7));
      const Tensor host = tensor_of(world, {}, std::vector<float>(kCount));
      remote.put(host).wait().or_throw();  // which pins what it lies in
      slot.wait().value();
      OwnStream own(world, 0, kCount, 1);
      world.copy(gpu, host, own.get());
      Request request = remote.put(host, own.get());
      EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kCount, 7));
      request.wait().or_throw();
    }
  });
}

TEST_F(Streams, GoOnAtADeadlineAndTheNextCallSaysWhy) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    OwnStream own(world, 0, kCount, 1);
    Arrival none = slot.wait_on(own.get(), Deadline::after(milliseconds(50))).value();
    ASSERT_NE(none.outcome(), nullptr);
    own.synchronize();
    EXPECT_EQ(*none.outcome(), static_cast<std::uint32_t>(Code::timeout));
    const auto next = slot.wait_on(own.get());
    EXPECT_EQ(next.status().code(), Code::timeout);
    EXPECT_NE(next.status().text().find("a stream waited"), std::string::npos);
    none.release();
    // It begins anew with the same tensor, and no credit was given for the one that did not come.
    for (float first = 1; first < 6; ++first) {
      remote.put(tensor_of(world, {}, counted(kCount, first))).wait().or_throw();
      Arrival arrival = slot.wait_on(own.get()).value();
      EXPECT_EQ(arrival.sequence(), static_cast<std::uint64_t>(first));
      own.read(0, arrival.tensor());
      own.synchronize();
      EXPECT_EQ(*arrival.outcome(), 0U);
      EXPECT_EQ(own.elements(0), counted(kCount, first));
      arrival.release(own.get()).or_throw();
    }
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.transfers, 5U);
  });
}

TEST_F(Streams, GoOnWhenAPutIsLateAndTheNextPutSaysWhy) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0), 1));
    RemoteSlot remote = world.attach(0, spec_on({}, 1));
    OwnStream own(world, 0, kCount, 1);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    remote.put(tensor, own.get()).wait().or_throw();
    Request late = remote.put(tensor, own.get());
    EXPECT_OK_STATUS(late.wait_on(own.get(), Deadline::after(milliseconds(50))));
    own.synchronize();
    EXPECT_EQ(remote.put(tensor, own.get()).wait().code(), Code::timeout);
    EXPECT_EQ(late.wait().code(), Code::cancelled);
    slot.wait().value();
    remote.put(tensor, own.get()).wait().or_throw();
    EXPECT_EQ(elements_of(world, slot.wait().value().tensor()), counted(kCount));
  });
}

TEST_F(Streams, GoOnWhenTheWriterOrTheSlotGoes) {
  for (const bool closes : {false, true})
    run_pair(
        [&](World& world) {
          Slot slot = world.expose(spec_on(Memory::gpu(0)));
          OwnStream own(world, 0, kCount, 1);
          meet(world);
          Arrival none = slot.wait_on(own.get(), Deadline::after(std::chrono::seconds(20))).value();
          const auto begun = std::chrono::steady_clock::now();
          if (closes) slot = Slot();
          own.synchronize();
          EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
          EXPECT_NE(*none.outcome(), 0U);
          const Status next = slot.wait().status();
          EXPECT_EQ(next.code(), closes ? Code::bad_argument : Code::peer_left) << next.text();
        },
        [&](World& world) {
          RemoteSlot remote = world.attach(0, spec_on({}));
          meet(world);
          if (!closes) world.leave().or_throw();
        },
        settings().with(Setting::log, "off"));
}

TEST_F(Streams, OfAnotherGpuAreRefused) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    {
      OwnStream other(world, 1, kCount, 1);
      const Status status = remote.put(tensor, other.get()).wait();
      EXPECT_EQ(status.code(), Code::bad_argument);
      EXPECT_NE(status.text().find("the stream is of GPU 1"), std::string::npos);
    }
    OwnStream own(world, 0, kCount, 1);
    remote.put(tensor, own.get()).wait().or_throw();
    Arrival arrival = slot.wait().value();
    EXPECT_EQ(arrival.release(Stream::cuda(this)).code(), Code::bad_argument);
    EXPECT_TRUE(arrival) << "it is still held";
  });
}

TEST_F(Streams, AreNotWaitedWithWhereLaunchesBlock) {
  ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    OwnStream own(world, 0, kCount, 1);
    EXPECT_EQ(slot.wait_on(own.get(), Deadline::after(milliseconds(10))).status().code(),
              Code::timeout);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    Request request = remote.put(tensor, own.get());
    EXPECT_OK_STATUS(request.wait_on(own.get()));
    EXPECT_TRUE(slot.ready());
    EXPECT_EQ(slot.wait_on(own.get()).value().outcome(), nullptr);
  });
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
}

/// Planted: an allocation while a stream waits, as a call that may wait for all streams.
TEST_F(Streams, AreCaughtIfMemoryIsAllocatedWhileTheyWait) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    OwnStream own(world, 0, kCount, 1);
    Arrival none = slot.wait_on(own.get(), Deadline::after(milliseconds(200))).value();
    (void)world.allocate(DType::f32, {kCount}, Memory::gpu(1));
    EXPECT_NE(control()->take_complaints(), std::vector<std::string>{});
  });
}

TEST_F(Streams, MakeNothingInTheSteadyState) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(spec_on(Memory::gpu(0)));
    RemoteSlot remote = world.attach(0, spec_on({}));
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kCount));
    OwnStream own(world, 0, kCount, 1);
    expect_steady(*control(), 1, [&] {
      Request request = remote.put(tensor, own.get());
      EXPECT_OK_STATUS(request.wait_on(own.get()));
      Arrival arrival = slot.wait_on(own.get()).value();
      EXPECT_OK_STATUS(arrival.release(own.get()));
      while (!request.test()) {
      }
    });
    own.synchronize();
  });
}

}  // namespace
}  // namespace weft::tests
