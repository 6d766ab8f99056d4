// Tensors on GPUs: where they lie, what they cost, what becomes of them.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/world/gpu_rank.hpp"

namespace weft::tests {
namespace {

class Allocate : public OnGpus {};

TEST_F(Allocate, JobsWithoutAGpuTensorMakeNoContext) {
  run_on(2, [&](World& world) {
    (void)world.allocate(DType::f32, {8});
    (void)world.allocate(DType::f32, {8}, Memory::host());
    int active = 1;
    unsigned flags = 0;
    ASSERT_OK(driver().context_state(0, &flags, &active));
    EXPECT_EQ(active, 0);
  });
}

TEST_F(Allocate, TensorsLieOnTheirGpuInGranulesOf256Bytes) {
  run_on(1, [&](World& world) {
    std::vector<Tensor> tensors;
    {
      const SameContext same(control(), "allocate");
      for (int i = 0; i < 4; ++i)
        tensors.push_back(world.allocate(DType::f32, {3}, Memory::gpu(0)));
    }
    for (const Tensor& tensor : tensors) {
      EXPECT_EQ(tensor.memory(), Memory::gpu(0));
      EXPECT_EQ(address(tensor.data()) % 256, 0U);
      int ordinal = -1;
      ASSERT_OK(driver().pointer_attribute(&ordinal, PointerAttribute::device_ordinal,
                                           address(tensor.data())));
      EXPECT_EQ(ordinal, 0);
    }
    EXPECT_EQ(tensors[1].data() - tensors[0].data(), 256);
    EXPECT_TRUE(tells(thrown_by([&] { (void)tensors[0].as<float>(); }), Code::bad_argument,
                      {"f32[3]", "GPU 0"}));
  });
}

TEST_F(Allocate, ReportsHaveAnArenaForEachGpuInUse) {
  run_on(1, [&](World& world) {
    EXPECT_EQ(world.report().arenas.size(), 4U);
    Tensor tensor = world.allocate(DType::u8, {1000}, Memory::gpu(0));
    ASSERT_EQ(world.report().arenas.size(), 5U);
    const ArenaReport used = world.report().arenas[4];
    EXPECT_EQ(used.sort, "GPU 0");
    EXPECT_EQ(used.used_bytes, 1024U);
    EXPECT_EQ(used.chunks, 1U);
    EXPECT_EQ(used.reserved_bytes, 2U << 20);
    tensor = Tensor();
    const ArenaReport freed = world.report().arenas[4];
    EXPECT_EQ(freed.used_bytes, 0U);
    EXPECT_EQ(freed.reserved_bytes, 2U << 20) << "a chunk stays";
    (void)world.allocate(DType::u8, {1 << 20}, Memory::gpu(0));
    EXPECT_EQ(world.report().arenas[4].chunks, 1U);
    EXPECT_EQ(world.report().arenas[1].used_bytes, 0U) << "nothing in host memory";
  });
}

TEST_F(Allocate, TensorsOutliveTheirWorld) {
  Tensor kept;
  run_on(1, [&](World& world) { kept = world.allocate(DType::f32, {8}, Memory::gpu(0)); });
  run_on(1, [&](World& world) {
    const auto values = counted(8);
    world.copy(Tensor::wrap(const_cast<float*>(values.data()), DType::f32, {8}), kept);
    EXPECT_EQ(elements_of(world, kept), values);
  });
}

TEST_F(Allocate, AForkMakesNoCallOfTheDriver) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  Tensor kept;
  run_on(1, [&](World& world) { kept = world.allocate(DType::f32, {8}, Memory::gpu(0)); });
  const auto ends = [&] {
    return control()->calls("cuMemUnmap") + control()->calls("cuMemRelease") +
           control()->calls("cuStreamDestroy_v2") +
           control()->calls("cuDevicePrimaryCtxRelease_v2");
  };
  const std::uint64_t before = ends();
  const pid_t child = ::fork();
  if (child == 0) {
    kept = Tensor();
    ::_exit(ends() == before ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  kept = Tensor();
  EXPECT_EQ(ends(), before + 5) << "two streams, one of each other";
}

TEST_F(Allocate, TensorsWithoutElementsAreOnTheirGpuToo) {
  run_on(1, [&](World& world) {
    const Tensor tensor = world.allocate(DType::f32, {0, 4}, Memory::gpu(0));
    EXPECT_EQ(tensor.memory(), Memory::gpu(0));
    EXPECT_EQ(tensor.bytes(), 0U);
  });
}

TEST_F(Allocate, GpusThatAreNotThereAreNamedWithThoseThatAre) {
  run_on(1, [&](World& world) {
    int count = 0;
    ASSERT_OK(driver().device_count(&count));
    EXPECT_TRUE(tells(thrown_by([&] { (void)world.allocate(DType::f32, {8}, Memory::gpu(99)); }),
                      Code::bad_argument, {"there is no GPU 99", "sees " + std::to_string(count)}));
  });
}

TEST_F(Allocate, TooMuchSaysWhatIsFreeAndTheWorldGoesOn) {
  run_on(1, [&](World& world) {
    const ErrorDetail refused = thrown_by(
        [&] { (void)world.allocate(DType::u8, {std::int64_t{1} << 45}, Memory::gpu(0)); });
    EXPECT_TRUE(tells(refused, Code::exhausted,
                      {"35184372088832 bytes asked of the GPU 0 arena", "are free"}));
    EXPECT_EQ(world.allocate(DType::f32, {8}, Memory::gpu(0)).bytes(), 32U);
  });
}

/// The ranks' GPUs under a WEFT_GPU.
std::vector<int> gpus_of(int ranks, const std::string& setting) {
  std::vector<int> chosen(static_cast<std::size_t>(ranks), -1);
  run_on(ranks, settings().with(Setting::gpu, setting), [&](World& world) {
    chosen[static_cast<std::size_t>(world.rank())] =
        world.allocate(DType::f32, {8}, Memory::gpu()).memory().ordinal();
  });
  return chosen;
}

TEST_F(Allocate, RanksOfAHostTakeTheGpusInTurn) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  EXPECT_EQ(gpus_of(3, "auto"), (std::vector{0, 1, 0}));
  EXPECT_EQ(gpus_of(2, "1"), (std::vector{1, 1}));
  EXPECT_EQ(gpus_of(1, "GPU-a1a1a1a1-A1A1-a1a1-a1a1-a1a1a1a1a1a1"), std::vector{1});
}

TEST_F(Allocate, SettingsThatNameNoGpuAreRefused) {
  for (const auto& [setting, words] :
       {std::pair{"7", "sees"}, {"GPU-00000000-0000-0000-0000-000000000000", "no such GPU"}}) {
    run_on(1, settings().with(Setting::gpu, setting),
           [&, setting = setting, words = words](World& world) {
             EXPECT_TRUE(
                 tells(thrown_by([&] { (void)world.allocate(DType::f32, {8}, Memory::gpu()); }),
                       Code::bad_config, {std::string("WEFT_GPU=") + setting, words}));
           });
  }
}

/// The driver's refusals, at each of its calls in turn.
class Refusals : public OnGpus {};

TEST_F(Refusals, EndInATypedErrorAndLeaveNothingBehind) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  for (const char* function :
       {"cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate",
        "cuMemGetAllocationGranularity", "cuMemGetInfo_v2", "cuMemCreate", "cuMemAddressReserve",
        "cuMemMap", "cuMemSetAccess"}) {
    run_on(1, [&](World& world) {
      for (const auto& [status, code] : {std::pair{DriverStatus::unknown, Code::system},
                                         {DriverStatus::out_of_memory, Code::exhausted}}) {
        if (std::string(function) == "cuDeviceGetCount" && code == Code::exhausted) continue;
        control()->refuse(function, 1, status);
        const ErrorDetail refused =
            thrown_by([&] { (void)world.allocate(DType::f32, {8}, Memory::gpu()); });
        EXPECT_EQ(refused.code, code) << function << ": " << refused.text();
        EXPECT_EQ(refused.operation.empty(), false);
      }
      EXPECT_EQ(world.allocate(DType::f32, {8}, Memory::gpu()).bytes(), 32U) << function;
    });
    EXPECT_EQ(control()->leftovers(), std::vector<std::string>{}) << function;
  }
}

TEST_F(Refusals, ToExportMemoryLeaveItsTensorsUsable) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  control()->refuse("cuMemExportToShareableHandle", 1, DriverStatus::not_permitted);
  run_on(1, [&](World& world) {
    const Tensor tensor = world.allocate(DType::f32, {8}, Memory::gpu());
    EXPECT_EQ(elements_of(world, tensor).size(), 8U);
  });
}

class Unexportable : public OnGpus {
  stand_in::Options options() const override {
    stand_in::Options options;
    for (auto& gpu : options.gpus)
      gpu.attributes = {{DeviceAttribute::export_by_descriptor, 0},
                        {DeviceAttribute::gpudirect_of_virtual_memory, std::nullopt}};
    return options;
  }
};

TEST_F(Unexportable, GpusHoldTensorsAllTheSame) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  run_on(1, [&](World& world) {
    const Tensor tensor = world.allocate(DType::f32, {8}, Memory::gpu(0));
    EXPECT_EQ(control()->calls("cuMemExportToShareableHandle"), 0U);
    unsigned capable = 1;
    ASSERT_OK(driver().pointer_attribute(&capable, PointerAttribute::gpudirect_capable,
                                         address(tensor.data())));
    EXPECT_EQ(capable, 0U);
  });
}

}  // namespace
}  // namespace weft::tests
