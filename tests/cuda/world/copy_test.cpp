// World::copy: between host memory and GPUs, with and without a stream.
#include "tests/cuda/world/gpu_rank.hpp"

namespace weft::tests {
namespace {

/// On the stand-in operations take their time, so that what isn't waited for shows.
class Copy : public OnGpus {
 protected:
  stand_in::Options options() const override { return {.delay = std::chrono::milliseconds(2)}; }

  static Tensor wrapped(std::vector<float>& values) {
    return Tensor::wrap(values.data(), DType::f32, {static_cast<std::int64_t>(values.size())});
  }
};

TEST_F(Copy, BringsElementsBetweenAllKindsOfMemory) {
  run_on(1, [&](World& world) {
    auto mine = counted(1000);
    std::vector<float> back(1000);
    const Tensor arena = world.allocate(DType::f32, {1000});
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu(0));
    const Tensor other = world.allocate(DType::f32, {1000}, Memory::gpu(0));
    const SameContext same(control(), "copy");
    world.copy(wrapped(mine), arena);
    world.copy(arena, gpu);
    world.copy(gpu, other);
    world.copy(other, wrapped(back));
    EXPECT_EQ(back, mine);
  });
}

TEST_F(Copy, IsDoneWhenTheCallWithoutAStreamReturns) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu(0));
    // A copy to pinned memory is one for which the driver itself does not wait.
    Pinned<float> host(driver(), 1000);
    for (float first = 1; first < 10; ++first) {
      auto values = counted(1000, first);
      world.copy(wrapped(values), gpu);
      world.copy(gpu, Tensor::wrap(&host[0], DType::f32, {1000}));
      EXPECT_EQ(host.values(), values);
    }
  });
}

TEST_F(Copy, TakesPartsOfATensor) {
  run_on(1, [&](World& world) {
    auto values = counted(100);
    const Tensor gpu = world.allocate(DType::f32, {100}, Memory::gpu(0));
    world.copy(wrapped(values), gpu);
    EXPECT_EQ(elements_of(world, gpu.part(40, {10})), counted(10, 40));
  });
}

TEST_F(Copy, GoesBehindWhatIsOnTheStream) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    if (control() != nullptr) control()->act_for_application(true);
    StreamHandle stream = nullptr;
    ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    const Tensor gpu = world.allocate(DType::f32, {1000}, Memory::gpu(0));
    Pinned<float> host(driver(), 1000);
    for (int round = 0; round < 5; ++round) {
      ASSERT_OK(
          driver().set_bytes(address(gpu.data()), static_cast<unsigned char>(round), 4000, stream));
      world.copy(gpu, Tensor::wrap(&host[0], DType::f32, {1000}), Stream::cuda(stream));
      ASSERT_OK(driver().set_bytes(address(gpu.data()), 0xff, 4000, stream));
      ASSERT_OK(driver().synchronize_stream(stream));
      const auto* bytes = reinterpret_cast<const unsigned char*>(&host[0]);
      EXPECT_EQ(std::vector<unsigned char>(bytes, bytes + 4000),
                std::vector<unsigned char>(4000, static_cast<unsigned char>(round)));
    }
    ASSERT_OK(driver().destroy_stream(stream));
    if (control() != nullptr) control()->act_for_application(false);
  });
}

TEST_F(Copy, TakesTheDefaultStream) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    auto values = counted(10);
    const Tensor gpu = world.allocate(DType::f32, {10}, Memory::gpu(0));
    world.copy(wrapped(values), gpu, Stream::cuda(nullptr));
    ASSERT_OK(driver().synchronize_stream(nullptr));
    EXPECT_EQ(elements_of(world, gpu), values);
  });
}

TEST_F(Copy, IsCapturedAndReplayed) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    StreamHandle stream = nullptr;
    ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    auto values = counted(10);
    const Tensor from = world.allocate(DType::f32, {10}, Memory::gpu(0));
    const Tensor to = world.allocate(DType::f32, {10}, Memory::gpu(0));
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    ASSERT_OK(driver().begin_capture(stream, CaptureMode::thread_local_));
    world.copy(from, to, Stream::cuda(stream));
    ASSERT_OK(driver().end_capture(stream, &graph));
    ASSERT_OK(driver().instantiate_graph(&executable, graph, 0));
    for (float first = 0; first < 3; ++first) {
      values = counted(10, first);
      world.copy(wrapped(values), from);
      ASSERT_OK(driver().launch_graph(executable, stream));
      ASSERT_OK(driver().synchronize_stream(stream));
      EXPECT_EQ(elements_of(world, to), values);
    }
    ASSERT_OK(driver().destroy_graph_exec(executable));
    ASSERT_OK(driver().destroy_graph(graph));
    ASSERT_OK(driver().destroy_stream(stream));
  });
}

TEST_F(Copy, WaitsWhileAnotherThreadCaptures) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    StreamHandle stream = nullptr;
    ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    auto values = counted(10);
    const Tensor gpu = world.allocate(DType::f32, {10}, Memory::gpu(0));
    const Tensor host = world.allocate(DType::f32, {10});
    ASSERT_OK(driver().begin_capture(stream, CaptureMode::global));
    ErrorDetail elsewhere;
    std::thread([&] {
      elsewhere = thrown_by([&] {
        world.copy(wrapped(values), host);
        world.copy(host, gpu);
      });
    }).join();
    EXPECT_EQ(elsewhere.code, Code::ok) << elsewhere.text();
    Graph graph = nullptr;
    ASSERT_OK(driver().end_capture(stream, &graph)) << "weft has spoiled it";
    ASSERT_OK(driver().destroy_graph(graph));
    EXPECT_EQ(elements_of(world, gpu), values);
    ASSERT_OK(driver().destroy_stream(stream));
  });
}

TEST_F(Copy, RefusesTensorsThatDoNotFit) {
  run_on(1, [&](World& world) {
    const Tensor gpu = world.allocate(DType::f32, {4, 4}, Memory::gpu(0));
    const auto copying = [&](const Tensor& from, const Tensor& to) {
      return thrown_by([&] { world.copy(from, to); });
    };
    EXPECT_TRUE(tells(copying(gpu, world.allocate(DType::f32, {16})), Code::mismatch,
                      {"f32[4, 4]", "f32[16]"}));
    EXPECT_TRUE(tells(copying(gpu, world.allocate(DType::i32, {4, 4})), Code::mismatch, {"i32"}));
    EXPECT_TRUE(tells(copying(gpu, Tensor::wrap(nullptr, DType::f32, {4, 4})), Code::bad_argument,
                      {"the target f32[4, 4] has no memory"}));
    const Tensor slice = gpu.slice(1, 0, 2);
    EXPECT_TRUE(tells(copying(slice, slice), Code::bad_argument, {"the source", "strides"}));
  });
}

TEST_F(Copy, RefusesMemoryThatIsNotWhereTheTensorSays) {
  run_on(1, [&](World& world) {
    const OwnContext own(driver());
    DevicePointer pointer = 0;
    ASSERT_OK(driver().allocate(&pointer, 64));
    auto values = counted(16);
    const Tensor host = wrapped(values);
    const auto gpu_tensor = [&](DevicePointer at, std::int64_t elements, int ordinal = 0) {
      return Tensor::wrap(reinterpret_cast<void*>(at), DType::f32, {elements},
                          Memory::gpu(ordinal));
    };
    const auto copying = [&](const Tensor& from) {
      return thrown_by(
          [&] { world.copy(from, world.allocate(DType::f32, from.shape(), Memory::gpu(0))); });
    };
    EXPECT_TRUE(tells(copying(Tensor::wrap(reinterpret_cast<void*>(pointer), DType::f32, {16})),
                      Code::bad_argument, {"lies on GPU 0, and was given as host memory"}));
    EXPECT_TRUE(tells(copying(gpu_tensor(address(values.data()), 16)), Code::bad_argument,
                      {"is no memory of GPU 0"}));
    EXPECT_TRUE(tells(copying(gpu_tensor(pointer, 17)), Code::bad_argument,
                      {"the source f32[17]", "ends behind its allocation", "64 bytes"}));
    world.copy(host, gpu_tensor(pointer, 16));
    EXPECT_EQ(elements_of(world, gpu_tensor(pointer, 16)), values);
    ASSERT_OK(driver().free(pointer));
    EXPECT_TRUE(tells(copying(gpu_tensor(pointer, 16)), Code::bad_argument, {"it was freed"}));
  });
}

TEST_F(Copy, RefusesStreamsAndTensorsOfAnotherGpu) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  run_on(1, [&](World& world) {
    const OwnContext own(driver(), 1);
    StreamHandle stream = nullptr;
    ASSERT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    const Tensor first = world.allocate(DType::f32, {8}, Memory::gpu(0));
    const Tensor second = world.allocate(DType::f32, {8}, Memory::gpu(1));
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(host, first, Stream::cuda(stream)); }),
                      Code::bad_argument, {"the stream is of GPU 1", "GPU 0"}));
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(first, second); }), Code::bad_argument,
                      {"from GPU 0 to GPU 1"}));
    int none = 0;
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(host, first, Stream::cuda(&none)); }),
                      Code::bad_argument, {"there is no stream"}));
    const Tensor wrong = Tensor::wrap(second.data(), DType::f32, {8}, Memory::gpu(0));
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(host, wrong); }), Code::bad_argument,
                      {"lies on GPU 1, not on GPU 0"}));
    world.copy(host, second, Stream::cuda(stream));
    ASSERT_OK(driver().destroy_stream(stream));
  });
}

TEST_F(Copy, KeepsWhatOutlivedItsDeadline) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  control()->restart({.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(200)});
  run_on(1, [&](World& world) {
    Tensor gpu = world.allocate(DType::f32, {8}, Memory::gpu(0));
    const Tensor to = world.allocate(DType::f32, {8}, Memory::gpu(0));
    EXPECT_TRUE(tells(
        thrown_by([&] { world.copy(gpu, to, {}, Deadline::after(std::chrono::nanoseconds(1))); }),
        Code::timeout, {"GPU 0", "f32[8]", "still under way"}));
    gpu = Tensor();
    EXPECT_EQ(world.report().arenas[4].used_bytes, 512U) << "the copy still reads it";
    EXPECT_TRUE(soon([&] {
      world.copy(to, to);
      return world.report().arenas[4].used_bytes == 256U;
    }));
  });
}

TEST_F(Copy, GivesTypedErrorsForTheDriversRefusals) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  run_on(1, [&](World& world) {
    auto values = counted(8);
    const Tensor gpu = world.allocate(DType::f32, {8}, Memory::gpu(0));
    for (const char* function : {"cuEventCreate", "cuCtxPushCurrent_v2", "cuMemcpyAsync",
                                 "cuEventRecord", "cuEventQuery"}) {
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(thrown_by([&] { world.copy(wrapped(values), gpu); }), Code::system,
                        {"GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      if (std::string(function) == "cuEventCreate") {
        EXPECT_EQ(control()->calls("cuMemcpyAsync"), 0U) << "nothing is under way";
      }
      world.copy(wrapped(values), gpu);
      EXPECT_EQ(elements_of(world, gpu), values) << function;
    }
    EXPECT_LE(control()->calls("cuEventCreate"), 3U) << "the refused one, and one for each copy "
                                                        "under way: one may be late";
  });
}

TEST_F(Copy, MayOutliveItsWorld) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  control()->restart({.pace = stand_in::Pace::lazy, .idle = std::chrono::milliseconds(0)});
  run_on(1, [&](World& world) {
    const Tensor gpu = world.allocate(DType::f32, {8}, Memory::gpu(0));
    EXPECT_EQ(thrown_by([&] {
                world.copy(gpu, gpu, {}, Deadline::after(std::chrono::nanoseconds(1)));
              }).code,
              Code::timeout);
  });
  EXPECT_NE(control()->leftovers(), std::vector<std::string>{}) << "its memory stays";
  EXPECT_GT(control()->step(10), 0);
  // A later copy lets go of what has ended.
  run_on(1, [&](World& world) {
    const Tensor gpu = world.allocate(DType::f32, {8}, Memory::gpu(0));
    world.copy(gpu, gpu);
  });
}

TEST_F(Copy, IsRightHoweverLateStreamsAre) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    ASSERT_EQ(
        control()->restart(
            {.pace = stand_in::Pace::lazy, .seed = seed, .idle = std::chrono::milliseconds(0)}),
        std::vector<std::string>{});
    run_on(1, [&](World& world) {
      auto values = counted(100, static_cast<float>(seed));
      const Tensor first = world.allocate(DType::f32, {100}, Memory::gpu());
      const Tensor second = world.allocate(DType::f32, {100}, Memory::gpu());
      world.copy(wrapped(values), first);
      world.copy(first, second);
      world.copy(wrapped(values).part(50, {50}), first.part(0, {50}));
      EXPECT_EQ(elements_of(world, second), values) << "seed " << seed;
    });
  }
}

TEST_F(Copy, TellsThatAGpuIsLost) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  run_on(1, [&](World& world) {
    const Tensor gpu = world.allocate(DType::f32, {8}, Memory::gpu(0));
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(tells(thrown_by([&] { world.copy(gpu, world.allocate(DType::f32, {8})); }),
                      Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    control()->lose(0, DriverStatus::success);
  });
}

}  // namespace
}  // namespace weft::tests
