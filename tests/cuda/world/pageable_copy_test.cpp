// World::copy between a GPU and host memory that is not pinned: its deadline holds.
#include <atomic>
#include <thread>

#include "tests/cuda/world/gpu_rank.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kElements = 3 * (std::size_t{1} << 18) + 100;  // some chunks of 1 MiB

class PageableCopy : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }

  static Tensor wrapped(std::vector<float>& values) {
    return Tensor::wrap(values.data(), DType::f32, {static_cast<std::int64_t>(values.size())});
  }
  static Tensor on_gpu(World& world, std::size_t elements = kElements) {
    return world.allocate(DType::f32, {static_cast<std::int64_t>(elements)}, Memory::gpu(0));
  }
  /// From now on no GPU does anything by itself.
  void stand_still() {
    ASSERT_EQ(control()->restart({.pace = stand_in::Pace::lazy, .idle = milliseconds(0)}),
              std::vector<std::string>{});
  }
  static ErrorDetail copy_within(World& world, const Tensor& from, const Tensor& to,
                                 milliseconds span) {
    return thrown_by([&] { world.copy(from, to, {}, Deadline::after(span)); });
  }
};

TEST_F(PageableCopy, GoesInChunksThroughPinnedMemory) {
  run_on(1, [&](World& world) {
    auto values = counted(kElements);
    std::vector<float> back(kElements);
    const Tensor gpu = on_gpu(world);
    world.copy(wrapped(values), gpu);
    EXPECT_EQ(control()->calls("cuMemcpyAsync"), 4U);
    world.copy(gpu, wrapped(back));
    EXPECT_EQ(control()->calls("cuMemcpyAsync"), 8U);
    EXPECT_EQ(back, values);
    EXPECT_EQ(control()->calls("copies of pageable memory"), 0U);
  });
}

TEST_F(PageableCopy, GoesInOneCopyWhereTheMemoryIsPinned) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    const Tensor gpu = on_gpu(world);
    Pinned<float> pinned(driver(), kElements);
    world.copy(Tensor::wrap(&pinned[0], DType::f32, gpu.shape()), gpu);
    world.copy(gpu, world.allocate(DType::f32, gpu.shape()));
    EXPECT_EQ(control()->calls("cuMemcpyAsync"), 2U);
    EXPECT_EQ(control()->calls("copies of pageable memory"), 0U);
  });
}

TEST_F(PageableCopy, AllocatesAndPinsNothingInTheSteadyState) {
  run_on(1, [&](World& world) {
    auto values = counted(100);
    const Tensor gpu = on_gpu(world, 100);
    expect_steady(*control(), 2, [&] {
      world.copy(wrapped(values), gpu);
      world.copy(gpu, wrapped(values));
    });
  });
}

TEST_F(PageableCopy, EndsAtItsDeadlineWhileTheGpuIsLate) {
  stand_still();
  run_on(1, [&](World& world) {
    std::vector<float> values(kElements, 3);
    const Tensor gpu = on_gpu(world);
    const auto begin = steady_clock::now();
    control()->stop_clock(true);
    for (const bool outwards : {true, false}) {
      const Tensor host = wrapped(values);
      EXPECT_TRUE(
          tells(copy_within(world, outwards ? gpu : host, outwards ? host : gpu, milliseconds(50)),
                Code::timeout, {"GPU 0", "has not copied", "partly written"}));
    }
    EXPECT_LT(steady_clock::now() - begin, seconds(20));
    EXPECT_EQ(values, std::vector<float>(kElements, 3)) << "no late chunk writes the target";
    const std::vector<float> before = values;
    control()->stop_clock(false);
    control()->step(100);
    EXPECT_EQ(values, before);
  });
}

TEST_F(PageableCopy, KeepsItsMemoryWhileAChunkIsLate) {
  stand_still();
  {
    std::vector<float> values(kElements, 3);
    run_on(1, [&](World& world) {
      const Tensor gpu = on_gpu(world);
      control()->stop_clock(true);
      EXPECT_EQ(copy_within(world, wrapped(values), gpu, milliseconds(50)).code, Code::timeout);
    });
    EXPECT_NE(control()->leftovers(), std::vector<std::string>{}) << "its memory stays";
  }
  control()->stop_clock(false);
  control()->step(100);
  run_on(1, [&](World& world) {
    const Tensor gpu = on_gpu(world, 8);
    world.copy(gpu, gpu);  // lets go of what has ended
  });
}

TEST_F(PageableCopy, GoesThroughWhatIsPinnedWhileAStreamWaits) {
  // A block of whole chunks fits into no memory that the slot has had pinned.
  constexpr std::size_t kMore = std::size_t{5} << 18;
  run_on(1, settings().with(Setting::gpu_staging, "8m"), [&](World& world) {
    auto values = counted(kMore);
    Slot slot = world.expose({.name = "in", .shape = {100}, .memory = Memory::gpu(0)});
    RemoteSlot remote = world.attach(0, {.name = "in", .shape = {100}});
    const Tensor gpu = on_gpu(world, kMore);
    const OwnContext own(driver());
    control()->act_for_application(true);
    StreamHandle stream = nullptr;
    ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    Arrival arrival = slot.wait_on(Stream::cuda(stream)).value();
    control()->act_for_application(false);
    // The stream waits for what this thread does after the copy.
    world.copy(wrapped(values), gpu);
    EXPECT_EQ(control()->calls("copies of pageable memory"), 0U);
    remote.put(world.allocate(DType::f32, {100})).wait().or_throw();
    EXPECT_EQ(elements_of(world, gpu), values);
    arrival.release(Stream::cuda(stream)).or_throw();
    control()->act_for_application(true);
    ASSERT_OK(driver().synchronize_stream(stream));
    ASSERT_OK(driver().destroy_stream(stream));
    control()->act_for_application(false);
  });
}

TEST_F(PageableCopy, SaysWhyTheGpuFails) {
  run_on(1, [&](World& world) {
    std::vector<float> values(kElements, 3);
    const Tensor gpu = on_gpu(world);
    for (const int nth : {1, 2, 3}) {
      control()->refuse("cuMemcpyAsync", nth, DriverStatus::unknown);
      EXPECT_TRUE(tells(thrown_by([&] { world.copy(wrapped(values), gpu); }), Code::system,
                        {"GPU 0", "cuMemcpyAsync", "CUDA_ERROR_UNKNOWN"}));
    }
    world.copy(wrapped(values), gpu);
    EXPECT_EQ(elements_of(world, gpu), values);
  });
}

TEST_F(PageableCopy, WorksWhereTheDriverPinsNothing) {
  ASSERT_EQ(control()->restart({.refused = "cuMemHostRegister_v2"}), std::vector<std::string>{});
  run_on(1, [&](World& world) {
    auto values = counted(kElements);
    const Tensor gpu = on_gpu(world);
    world.copy(wrapped(values), gpu);
    EXPECT_EQ(elements_of(world, gpu), values);
  });
}

TEST_F(PageableCopy, RefusesAGpusMemoryAsHostMemoryAtBothEnds) {
  run_on(1, [&](World& world) {
    const Tensor gpu = on_gpu(world, 100);
    const Tensor wrong = Tensor::wrap(gpu.data(), DType::f32, {100});
    auto values = counted(100);
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(wrong, wrapped(values)); }), Code::bad_argument,
                      {"GPU 0", "was given as host memory"}));
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(wrapped(values), wrong); }), Code::bad_argument,
                      {"GPU 0", "was given as host memory"}));
  });
}

TEST_F(PageableCopy, GoesOnInSeveralThreadsAtOnce) {
  run_on(1, [&](World& world) {
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        auto values = counted(kElements, static_cast<float>(thread));
        const Tensor gpu = on_gpu(world);
        world.copy(wrapped(values), gpu);
        if (elements_of(world, gpu) == values) ++right;
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 3);
  });
}

}  // namespace
}  // namespace weft::tests
