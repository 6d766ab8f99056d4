// Queries of NVIDIA's libraries, answered by libraries that stand in for them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/cuda/driver/control.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "topology/discover/discover.hpp"
#include "topology/discover/driver_library.hpp"

namespace weft::topology {
namespace {

/// The libraries are found by their bare names once they are loaded by path: a loader recognises a
/// library by its name.
class Driver : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"})
      if (DriverLibrary(name, "").problem().empty())
        GTEST_SKIP() << "this machine has a driver of its own (" << name << ")";
    for (const char* file : {WEFT_STAND_IN_CUDA, WEFT_FAKE_NVML})
      ASSERT_TRUE(DriverLibrary(file, "fake").problem().empty()) << file;
  }
};

TEST(NoDriver, IsSaidInOneLine) {
  if (DriverLibrary("libcuda.so.1", "").problem().empty()) GTEST_SKIP() << "there is one here";
  const CudaAnswer answer = ask_cuda_driver();
  EXPECT_TRUE(answer.devices.empty());
  EXPECT_EQ(answer.problem, "no CUDA driver (libcuda.so.1 is not installed)");
  EXPECT_TRUE(ask_nvml().empty());
}

TEST_F(Driver, CudaTellsDevicesAndWhichCantBeAsked) {
  using p2p::cuda::DeviceAttribute;
  stand_in::Options options{.driver_version = 12040, .gpus = {}};
  for (int i = 0; i < 3; ++i)
    options.gpus.push_back({.name = "A GPU MIG " + std::to_string(i + 1) + "g",
                            .bus_id = "0000:03:00.0",
                            .attributes = {{DeviceAttribute::gpudirect, 0}}});
  stand_in::Control* control = stand_in::control();
  ASSERT_NE(control, nullptr);
  control->restart(options);
  control->refuse("cuDeviceGet", 3, stand_in::DriverStatus::invalid_device);
  const CudaAnswer answer = ask_cuda_driver();
  EXPECT_EQ(answer.version, "12.4");
  ASSERT_EQ(answer.devices.size(), 2U);
  EXPECT_EQ(answer.devices[0].pci.text(), "0000:03:00.0");
  EXPECT_TRUE(answer.devices[1].mig);
  EXPECT_EQ(answer.devices[1].uuid, "MIG-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
  EXPECT_EQ(answer.devices[0].dma_buf, true);
  EXPECT_EQ(answer.devices[0].gpudirect, false);
  EXPECT_EQ(answer.problem, "CUDA device 2: CUDA_ERROR_INVALID_DEVICE");
}

TEST_F(Driver, NvmlTellsLinksOfAllGpus) {
  const auto gpus = ask_nvml();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].c2c_gbytes, 450);
  EXPECT_EQ(gpus[1].c2c_gbytes, 0);
  ASSERT_EQ(gpus[0].links.size(), 2U);
  EXPECT_EQ(gpus[0].links[0].to, PeerKind::gpu);
  EXPECT_EQ(gpus[0].links[0].count, 3);
  EXPECT_EQ(gpus[0].links[0].target, gpus[1].pci);
  EXPECT_EQ(gpus[0].links[1].to, PeerKind::nvswitch);
}

}  // namespace
}  // namespace weft::topology
