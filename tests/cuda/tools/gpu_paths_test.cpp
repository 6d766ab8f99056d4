// The paths that weft-info --gpu tries, on the stand-in's GPUs and over NICs of software.
#include "runtime/tool/gpu/gpu_paths.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cuda/slots/fabrics.hpp"
#if defined(WEFT_TEST_FAKE_NIC)
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/rank_memory.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/regions.hpp"
#endif

namespace weft::tests {
namespace {

using tool::Finding;
using tool::GpuPaths;
using tool::GpuScene;

testing::AssertionResult says(const Finding& finding, bool works, const std::string& words) {
  if (finding.works == works && finding.says.find(words) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << (finding.works ? "works: " : "fails: ") << finding.says;
}

class GpuPathsTried : public OnGpus {
 protected:
  GpuPaths tried(const GpuScene& scene = {}) {
    const SameContext same(control(), "weft-info --gpu");
    return tool::try_gpu_paths(scene);
  }
};

TEST_F(GpuPathsTried, OfAnyMachineEveryGpuAndEachTwoHaveTheirLine) {
  const GpuPaths paths = tried();
  int count = 0;
  ASSERT_OK(driver().device_count(&count));
  EXPECT_EQ(paths.none, "");
  ASSERT_EQ(paths.gpus.size(), static_cast<std::size_t>(count));
  ASSERT_EQ(paths.pairs.size(), static_cast<std::size_t>(count * count));
  EXPECT_EQ(paths.own, 0);
  for (const tool::GpuFacts& gpu : paths.gpus) {
    EXPECT_EQ(gpu.uuid.size(), 40U) << gpu.uuid;
    EXPECT_FALSE(gpu.name.empty() || gpu.pci.empty());
    EXPECT_TRUE(gpu.free > 0 && gpu.free <= gpu.total);
    EXPECT_TRUE(gpu.copy.works) << gpu.copy.says;
    for (const Finding* finding : {&gpu.exported, &gpu.gpudirect, &gpu.dma_buf, &gpu.stream_words})
      EXPECT_FALSE(finding->says.empty());
  }
  EXPECT_EQ(paths.staging, -1);
  EXPECT_FALSE(paths.staging_reason.empty());
  const std::string text = tool::text_of(paths);
  for (const tool::GpuPairPath& pair : paths.pairs)
    EXPECT_NE(text.find(pair.mapped.says), std::string::npos);
}

TEST_F(GpuPathsTried, OfTwoGpusThatReachEachOtherAllIsMapped) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  const GpuPaths paths = tried();
  ASSERT_EQ(paths.gpus.size(), 2U);
  for (const tool::GpuPairPath& pair : paths.pairs)
    EXPECT_TRUE(says(pair.mapped, true, "copies into the owner's memory"));
  for (const tool::GpuFacts& gpu : paths.gpus) {
    EXPECT_TRUE(says(gpu.exported, true, "descriptor"));
    EXPECT_TRUE(says(gpu.stream_words, true, "streams wait"));
    EXPECT_TRUE(says(gpu.copy, true, "pinned memory"));
  }
  EXPECT_EQ(paths.driver, "12.4");
}

/// Each hindrance between GPUs 0 and 1, and what is said of it; of a GPU's own memory, if that has
/// the same one.
TEST_F(GpuPathsTried, BetweenGpusEachHindranceIsSaid) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  struct Case {
    stand_in::Options options;
    const char* words;
    bool alone;  ///< it hinders a GPU's own memory too
  };
  const std::array<Case, 5> cases{
      Case{{.peer_access = false}, "can't access", false},
      Case{{.peer_writes_lost = true}, "is lost", false},
      Case{{.peer_writes_astray = true}, "does not see", false},
      Case{{.refused = "cuMemImportFromShareableHandle"}, "refuses to map", true},
      Case{without_exports(), "does not export", true}};
  for (const Case& one : cases) {
    ASSERT_EQ(control()->restart(one.options), std::vector<std::string>{});
    const GpuPaths paths = tried();
    ASSERT_EQ(paths.pairs.size(), 4U);
    for (const tool::GpuPairPath& pair : paths.pairs) {
      const bool hindered = one.alone || pair.writer != pair.owner;
      EXPECT_TRUE(says(pair.mapped, !hindered, hindered ? one.words : "copies into"));
    }
  }
}

TEST_F(GpuPathsTried, AGpuThatCantBeOpenedIsSaidAndTheOthersAreTried) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  control()->refuse("cuDevicePrimaryCtxRetain", 1, DriverStatus::unknown);
  const GpuPaths paths = tried();
  EXPECT_TRUE(says(paths.gpus.at(0).opened, false, "cuDevicePrimaryCtxRetain"));
  EXPECT_TRUE(paths.gpus.at(1).copy.works);
  EXPECT_EQ(paths.pairs.size(), 1U);
  EXPECT_NE(tool::text_of(paths).find("cuDevicePrimaryCtxRetain"), std::string::npos);
}

TEST_F(GpuPathsTried, AStreamThatCantWaitIsSaidAndNotLost) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in, which counts streams";
  control()->refuse("cuStreamWaitValue32_v2", 1, DriverStatus::unknown);
  const GpuPaths paths = tried();
  EXPECT_TRUE(says(paths.gpus.at(0).stream_words, false, "cuStreamWaitValue32"));
  EXPECT_TRUE(paths.gpus.at(1).stream_words.works);
}

TEST_F(GpuPathsTried, TheProcesssGpuIsTopologysOrWhatTheSettingNames) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's two GPUs";
  GpuScene scene;
  for (const tool::GpuFacts& gpu : tried().gpus) scene.placement.visible_gpus.push_back(gpu.pci);
  scene.placement.gpu = scene.placement.visible_gpus.at(1);
  scene.placement.gpu_reason = "the nearest one";
  scene.placement.nic = "mlx5_3";
  scene.placement.staging = 8;
  const GpuPaths placed = tried(scene);
  EXPECT_EQ(placed.own, 1);
  EXPECT_EQ(placed.own_reason, "the nearest one");
  EXPECT_EQ(placed.staging, 8);
  EXPECT_NE(tool::text_of(placed).find("staging  on NUMA node 8: beside mlx5_3"),
            std::string::npos);
  scene.config = Config().with(Setting::gpu, "0");
  EXPECT_EQ(tried(scene).own, 0);
  scene.config = Config();
  scene.placement.visible_gpus.front() = "0000:99:00.0";
  const GpuPaths hidden = tried(scene);
  EXPECT_EQ(hidden.own, 0);
  EXPECT_NE(hidden.own_reason.find("and not 0000:99:00.0"), std::string::npos) << hidden.own_reason;
}

#if defined(WEFT_TEST_FAKE_NIC)

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::NicSpec;

class NicsTried : public GpuPathsTried {
 protected:
  void SetUp() override {
    GpuPathsTried::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's memory";
  }
  stand_in::Options options() const override { return with_flushes(true); }

  std::vector<tool::NicPath> paths_of(std::vector<NicSpec> nics, const Config& config = Config()) {
    FakeNetwork network(with_gpus());
    GpuScene scene{.config = config.with(Setting::arena_chunk, "2m")};
    scene.verbs = network.devices(0, std::move(nics));
    const GpuPaths paths = tried(scene);
    scene.verbs.reset();
    EXPECT_EQ(network.complaints() + network.left_behind(), "");
    EXPECT_EQ(nlohmann::json::parse(tool::json_of(paths)).at("nics").size(), paths.nics.size());
    return paths.nics;
  }
};

TEST_F(NicsTried, EachNicAndGpuHasItsWay) {
  const auto paths = paths_of({{.name = "a"},
                               {.name = "b", .dma_buf = false},
                               {.name = "c", .dma_buf = false, .peermem = false}});
  ASSERT_EQ(paths.size(), 6U);
  for (const tool::NicPath& path : paths) {
    const char nic = path.nic.front();
    EXPECT_EQ(path.way, nic == 'c' ? "staged" : "gpudirect") << path.nic;
    EXPECT_EQ(path.registered_by.substr(0, 7), nic == 'a'   ? "dma-buf"
                                               : nic == 'b' ? "address"
                                                            : "");
    EXPECT_EQ(path.flush, nic == 'c' ? "" : "driver");
    EXPECT_NE(path.reason.find(nic == 'c' ? "ibv_reg_mr" : "a page went there and back"),
              std::string::npos)
        << path.reason;
  }
}

TEST_F(NicsTried, SettingsCountAndADeafFlushIsSeen) {
  for (const auto& path : paths_of({{}}, Config().with(Setting::gdr_level, "never")))
    EXPECT_NE(path.reason.find("GPUDirect is off"), std::string::npos) << path.reason;
  for (const auto& path : paths_of({{}}, Config().with(Setting::gpu_flush, "none")))
    EXPECT_NE(path.reason.find("does not see what"), std::string::npos) << path.reason;
  for (const auto& path : paths_of({{}}, Config().with(Setting::gpu_flush, "read")))
    EXPECT_EQ(path.flush, "read");
}

TEST_F(NicsTried, ANicThatCantBeUsedOrIsNotThereIsSaid) {
  NicSpec down;
  down.ports.front().up = false;
  const auto paths = paths_of({down});
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(paths[0].gpu, -1);
  EXPECT_NE(paths[0].reason.find("is down"), std::string::npos) << paths[0].reason;
  EXPECT_TRUE(paths_of({}).empty());
}

TEST_F(NicsTried, APathBeyondTheLevelIsTriedAndStaged) {
  for (const bool is_far : {true, false}) {
    FakeNetwork network(with_gpus());
    GpuScene scene;
    const std::string pci = pci_address_of(driver(), 1);
    scene.placement.far_gpus = {{is_far ? "fake0" : "another", pci, "SYS is beyond PXB"}};
    scene.verbs = network.device(0);
    const GpuPaths paths = tried(scene);
    ASSERT_EQ(paths.nics.size(), 2U);
    EXPECT_EQ(paths.nics[0].way, "gpudirect") << paths.nics[0].reason;
    EXPECT_EQ(paths.nics[1].way, is_far ? "staged" : "gpudirect") << paths.nics[1].reason;
    EXPECT_EQ(paths.nics[1].reason.find("SYS is beyond PXB; else it would do") == 0, is_far)
        << paths.nics[1].reason;
    EXPECT_EQ(paths.nics[1].registered_by, "dma-buf") << "it was tried";
  }
}

/// As a job opens its device: whether the NIC should reach a GPU is topology's to say.
TEST_F(NicsTried, AGpuBeyondTheLevelIsStagedWithTopologysReason) {
  FakeNetwork network(with_gpus());
  const auto mapper = std::make_shared<p2p::SegmentMapper>();
  const Config config = Config().with(Setting::arena_chunk, "2m");
  topology::RankPlacement placement{.nic = "fake0"};
  placement.far_gpus = {{"fake0", pci_address_of(driver(), 1), "SYS is beyond PXB"},
                        {"another", pci_address_of(driver(), 0), "SYS is beyond PXB"}};
  for (const bool is_placed : {true, false}) {
    if (!is_placed) placement.far_gpus.front().nic = "another";
    Log log(Config().with(Setting::log, "off"), "here", 0);
    p2p::RankMemory memory({.config = config, .log = nullptr, .mapper = mapper});
    Gpus gpus({}, mapper, 2U << 20U);
    const auto devices = p2p::verbs::Device::open_all(
        network.device(0), p2p::verbs::VerbsOptions::read(config), log, placement);
    Gpus* const named = &gpus;
    p2p::verbs::Regions regions(*devices.front(), {.control = memory.control,
                                                   .data = memory.data,
                                                   .published = memory.published,
                                                   .staging = memory.staging,
                                                   .adopted = memory.adopted,
                                                   .gpus = &named});
    for (const int gpu : {0, 1}) {
      const p2p::OwnedBlock block(gpus.arena(Memory::gpu(gpu)), 4096);
      const auto outcome = regions.of_chunk(block.block().chunk);
      const bool is_far = is_placed && gpu == 1;
      EXPECT_EQ(outcome.ok(), !is_far);
      if (is_far) {
        EXPECT_TRUE(tells(outcome.status(), Code::system, {"GPU 1", "SYS is beyond PXB", "fake0"}));
      }
    }
  }
  EXPECT_EQ(network.complaints(), "");
}

#endif

}  // namespace
}  // namespace weft::tests
