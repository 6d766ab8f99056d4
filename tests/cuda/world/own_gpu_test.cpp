// Which GPU is a rank's: what WEFT_GPU names, what topology gives, or the next in turn.
#include "p2p/transport/cuda/own_gpu.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cuda/world/gpu_rank.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

class OwnGpuChoice : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's GPUs";
  }
  stand_in::Options options() const override {
    stand_in::Options three;
    three.gpus.resize(3);
    three.gpus[1].bus_id = "0004:0A:00.0";  // as drivers write it
    three.gpus[2].name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
    return three;
  }
  OwnGpu chosen(const GpuWish& wish) { return choose_own_gpu(driver(), wish, "test"); }
  /// As topology assumes them: some of the driver's, and others.
  std::vector<std::string> visible(const std::vector<int>& ordinals,
                                   const std::vector<std::string>& others = {}) {
    std::vector<std::string> all = others;
    for (const int ordinal : ordinals) all.push_back(pci_address_of(driver(), ordinal));
    return all;
  }
};

TEST_F(OwnGpuChoice, TopologysIsFoundByItsPciAddress) {
  const OwnGpu own =
      chosen({.index = 2, .pci = "0004:0a:00.0", .visible = visible({2, 1, 0}), .reason = "near"});
  EXPECT_EQ(own.ordinal, 1);
  EXPECT_EQ(own.reason, "near");
}

TEST_F(OwnGpuChoice, TheSettingGoesFirst) {
  EXPECT_EQ(chosen({.setting = "2", .pci = "0004:0a:00.0"}).ordinal, 2);
  EXPECT_EQ(chosen({.setting = uuid_text_of(driver(), 2), .pci = "0004:0a:00.0"}).ordinal, 2);
}

TEST_F(OwnGpuChoice, IfTheProcessSeesOtherGpusEveryRankTakesItsTurn) {
  // Topology has four, in turn: the first is closed to the job, so its second is the driver's
  // first.
  const auto assumed = visible({0, 1, 2}, {"0000:00:07.0"});
  std::vector<int> taken;
  for (int index = 0; index < 3; ++index) {
    const OwnGpu own = chosen({.index = index,
                               .pci = assumed[static_cast<std::size_t>(index)],
                               .visible = assumed,
                               .reason = "near"});
    taken.push_back(own.ordinal);
    for (const char* words : {"in turn", "0000:00:07.0", "0004:0a:00.0"})
      EXPECT_NE(own.reason.find(words), std::string::npos) << own.reason;
  }
  EXPECT_EQ(taken, (std::vector{0, 1, 2}));
  EXPECT_EQ(chosen({.index = 4, .pci = assumed[1], .visible = visible({0, 1})}).ordinal, 1)
      << "it sees more than topology thought";
}

TEST_F(OwnGpuChoice, WithoutTopologyTheyAreTakenInTurnAndItsReasonSaid) {
  EXPECT_EQ(chosen({.index = 5}).ordinal, 2);
  EXPECT_NE(chosen({.reason = "no driver of NVIDIA's"}).reason.find("no driver of NVIDIA's"),
            std::string::npos);
}

TEST_F(OwnGpuChoice, ASliceHasAUuidOfItsKind) {
  EXPECT_EQ(uuid_text_of(driver(), 0).substr(0, 4), "GPU-");
  EXPECT_EQ(uuid_text_of(driver(), 2).substr(0, 4), "MIG-");
}

/// Ranks on a machine, a folder that looks like /, that has the stand-in's GPUs.
class GpuByTopology : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's GPUs";
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    ASSERT_EQ(::setenv("HWLOC_FSROOT", root_.path().c_str(), 1), 0);
    put("sys/devices/system/cpu/cpu0/topology/core_siblings", "1");
    put("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
    for (const std::string bus : {"01", "11"}) {
      const std::string device = "sys/devices/pci0000:" + bus + "/0000:" + bus + ":00.0";
      put(device + "/class", "0x030200");
      put(device + "/vendor", "0x10de");
      put(device + "/device", "0x2330");
      const auto all = root_.path() / "sys/bus/pci/devices";
      std::filesystem::create_directories(all);
      std::filesystem::create_symlink("../../../../" + device, all / ("0000:" + bus + ":00.0"));
    }
  }
  void TearDown() override {
    ::unsetenv("HWLOC_FSROOT");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    OnGpus::TearDown();
  }
  void drive(const std::string& address) {
    put("proc/driver/nvidia/gpus/" + address + "/information", "Model: A GPU");
  }
  std::vector<int> gpus_of(int ranks, const Config& config = settings()) {
    std::vector<int> chosen(static_cast<std::size_t>(ranks), -1);
    run_on(ranks, config, [&](World& world) {
      EXPECT_EQ(control()->calls("cuDeviceGetPCIBusId"), 0U) << "before a tensor lies on a GPU";
      meeting_.wait();
      chosen[static_cast<std::size_t>(world.rank())] =
          world.allocate(DType::f32, {8}, Memory::gpu()).memory().ordinal();
    });
    return chosen;
  }

  Meeting meeting_{2};

 private:
  void put(const std::string& path, const std::string& text) {
    const auto file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  const TempFolder root_;
};

TEST_F(GpuByTopology, IsTheDriversInTurnIfThatShowsOthers) {
  drive("0000:11:00.0");
  EXPECT_EQ(gpus_of(2), (std::vector{0, 1}));
}

TEST_F(GpuByTopology, IsAnotherOneForEachRank) {
  drive("0000:01:00.0");
  drive("0000:11:00.0");
  EXPECT_EQ(gpus_of(2), (std::vector{0, 1}));
}

/// The stand-in numbers its GPUs otherwise than the variable does.
TEST_F(GpuByTopology, IsFoundWhateverItsNumberIs) {
  drive("0000:01:00.0");
  drive("0000:11:00.0");
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "1,0", 1), 0);
  EXPECT_EQ(gpus_of(2), (std::vector{1, 0}));
}

TEST_F(GpuByTopology, IsNotLookedForBySharedMemoryAlone) {
  drive("0000:01:00.0");
  drive("0000:11:00.0");
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "1,0", 1), 0);
  const Config alone = settings()
                           .with(Setting::fabric, "shm")
                           .with(Setting::topo_file, "/nonexistent")
                           .with(Setting::gpu_nic, "malformed");
  EXPECT_EQ(gpus_of(2, alone), (std::vector{0, 1})) << "the driver's, in turn";
}

}  // namespace
}  // namespace weft::tests
