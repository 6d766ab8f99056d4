// Which GPU and which NIC a rank gets together, and which paths it should not take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/recorded.hpp"
#include "topology/import/import.hpp"
#include "topology/placement/place.hpp"

namespace weft::topology {
namespace {

/// Two sockets, each with a host bridge that has two GPUs and a NIC of its own.
Model four_gpus() {
  Machine machine;
  machine.numa(0, 0, {0, 1, 2, 3}).numa(1, 1, {4, 5, 6, 7});
  for (const auto& [node, bus] : {std::pair{0, "0000:0"}, {1, "0000:8"}}) {
    const int bridge = machine.host_bridge(node);
    machine.gpu(bridge, std::string(bus) + "1:00.0");
    machine.gpu(bridge, std::string(bus) + "2:00.0");
    machine.nic(bridge, std::string(bus) + "3:00.0", node == 0 ? "a" : "b");
  }
  return machine.build();
}

const std::vector<int> kLow{0, 1, 2, 3};
const std::vector<int> kHigh{4, 5, 6, 7};
const std::vector<int> kAll{0, 1, 2, 3, 4, 5, 6, 7};

/// "GPU's bus" of each rank, each deciding for itself.
std::vector<std::string> gpus_of(const Model& model, const std::vector<std::vector<int>>& cpus) {
  std::vector<std::string> buses;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    buses.push_back(
        place_rank(
            model,
            {.index = static_cast<int>(i), .count = static_cast<int>(cpus.size()), .cpus = cpus[i]},
            {})
            .gpu.substr(5, 2));
  return buses;
}

using Buses = std::vector<std::string>;

/// A machine with `nodes` sockets, each with `gpus` GPUs beside a NIC each, and `cpus` processors.
Model big_machine(int nodes, int gpus, int cpus) {
  Machine machine;
  int number = 0;
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> own;
    for (int i = 0; i < cpus; ++i) own.push_back(node * cpus + i);
    machine.numa(node, node, own);
    const int bridge = machine.host_bridge(node);
    for (int i = 0; i < gpus; ++i, ++number) {
      machine.gpu(bridge, fmt::format("0000:{:02x}:00.0", 1 + number));
      machine.nic(bridge, fmt::format("0000:{:02x}:00.0", 0x81 + number),
                  fmt::format("nic{}", number));
    }
  }
  return machine.build();
}

TEST(PlaceGpus, EachRankTakesItsTurnHoweverRanksAreBound) {
  const Model model = big_machine(2, 4, 4);
  const std::vector<int> low{0, 1, 2, 3};
  const std::vector<int> high{4, 5, 6, 7};
  const std::vector<std::vector<std::vector<int>>> bindings{
      {low, low, low, low, high, high, high, high},
      {low, high, low, high, low, high, low, high},
      std::vector(8, low),
      std::vector(8, std::vector<int>{}),
      std::vector(8, kAll)};
  for (const auto& cpus : bindings)
    EXPECT_EQ(gpus_of(model, cpus), (Buses{"01", "02", "03", "04", "05", "06", "07", "08"}));
  EXPECT_EQ(gpus_of(four_gpus(), std::vector(4, kLow)), (Buses{"01", "02", "81", "82"}));
  EXPECT_EQ(gpus_of(four_gpus(), std::vector(6, kAll)),
            (Buses{"01", "02", "81", "82", "01", "02"}));
}

TEST(PlaceGpus, ARanksNicIsNearItsGpuIfThatIsOnItsNodes) {
  const Model model = four_gpus();
  const auto nics = [&](const std::vector<std::vector<int>>& cpus) {
    std::vector<std::string> names;
    for (int i = 0; i < static_cast<int>(cpus.size()); ++i)
      names.push_back(place_rank(model,
                                 {.index = i,
                                  .count = static_cast<int>(cpus.size()),
                                  .cpus = cpus[static_cast<std::size_t>(i)]},
                                 {})
                          .nic);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(nics({kLow, kLow, kHigh, kHigh}), (Names{"a", "a", "b", "b"}));
  EXPECT_EQ(nics(std::vector(4, kAll)), (Names{"a", "a", "b", "b"}));
  EXPECT_EQ(nics({kHigh}), Names{"b"}) << "a job without tensors on GPUs keeps its processors' NIC";
  EXPECT_EQ(nics({kLow, kHigh, kLow, kHigh}), (Names{"a", "b", "a", "b"}));
}

TEST(PlaceGpus, AGpuElsewhereMovesNoMemory) {
  const RankPlacement placement = place_rank(four_gpus(), {.cpus = kHigh}, {});
  EXPECT_EQ(placement.gpu, "0000:01:00.0");
  EXPECT_EQ(placement.numa, 1);
  EXPECT_EQ(placement.staging, 1);
}

TEST(PlaceGpus, TheNicIsTheGpusAndMemoryTheRanks) {
  const Model model = four_gpus();
  const RankPlacement placement = place_rank(model, {.cpus = kHigh, .gpu = "0"}, {});
  EXPECT_EQ(placement.gpu, "0000:01:00.0");
  EXPECT_NE(placement.gpu_reason.find("WEFT_GPU=0"), std::string::npos) << placement.gpu_reason;
  EXPECT_EQ(placement.nic, "a");
  EXPECT_EQ(placement.staging, 0);
  EXPECT_EQ(placement.numa, 1);
}

/// The buses of the GPUs that `nic` should not reach.
std::vector<std::string> far_of(const RankPlacement& placement, const std::string& nic) {
  std::vector<std::string> buses;
  for (const FarGpu& far : placement.far_gpus)
    if (far.nic == nic) buses.push_back(far.pci.substr(5, 2));
  return buses;
}

TEST(PlaceGpus, TheLevelSaysWhichTheNicShouldNotReach) {
  const Model model = four_gpus();
  const auto far = [&](PathClass level) {
    Policy policy;
    policy.gdr_level = level;
    const RankPlacement placement = place_rank(model, {.cpus = kLow}, policy);
    for (const FarGpu& one : placement.far_gpus)
      EXPECT_NE(one.reason.find(" is beyond " + std::string(name(level))), std::string::npos);
    return far_of(placement, "a");
  };
  EXPECT_EQ(far(PathClass::PXB), (Buses{"01", "02", "81", "82"}));
  EXPECT_EQ(far(PathClass::PHB), (Buses{"81", "82"}));
  EXPECT_EQ(far(PathClass::SYS), Buses{});
}

TEST(PlaceGpus, EveryRailHasPathsOfItsOwn) {
  Machine machine;
  machine.numa(0, 0, kAll);
  const int bridge = machine.host_bridge(0);
  const int port = machine.bridge(bridge, "0000:00:01.0");
  machine.gpu(port, "0000:01:00.0");
  machine.nic(port, "0000:02:00.0", "near");
  machine.nic(bridge, "0000:03:00.0", "far");
  Policy policy;
  policy.nic = "far";
  EXPECT_EQ(far_of(place_rank(machine.build(), {.cpus = kAll}, policy), "far"), Buses{"01"});
  EXPECT_EQ(place_rank(machine.build(), {.cpus = kAll}, {}).nic, "near");
  EXPECT_TRUE(place_rank(machine.build(), {.cpus = kAll}, {}).far_gpus.empty());

  const Model two = big_machine(1, 2, 4);
  const RankPlacement placement = place_rank(two, {.cpus = {0}}, {});
  ASSERT_EQ(placement.rails.size(), 2U);
  EXPECT_EQ(far_of(placement, "nic0"), (Buses{"01", "02"}));
  EXPECT_EQ(far_of(placement, "nic1"), (Buses{"01", "02"}));
}

TEST(PlaceGpus, WhatIsNotKnownForbidsNoPath) {
  const Model model = four_gpus();
  EXPECT_TRUE(place_rank(model, {.cpus = kLow, .wiring_shown = false}, {}).far_gpus.empty());
  // A coherent link may shorten the way through the processor, but not that between two.
  EXPECT_EQ(far_of(place_rank(model, {.cpus = kLow, .coherent_links_known = false}, {}), "a"),
            (Buses{"81", "82"}));
  for (const char* gpu : {"9", "GPU-5c89c6a1-0000-0000-0000-000000000000"}) {
    const RankPlacement placement = place_rank(model, {.cpus = kLow, .gpu = gpu}, {});
    EXPECT_EQ(placement.gpu, "") << "topology does not know it";
    EXPECT_TRUE(placement.far_gpus.empty());
    EXPECT_EQ(placement.nic, "a");
  }
  Machine nowhere;
  nowhere.numa(0, 0, kLow).numa(1, 1, kHigh);
  nowhere.gpu(nowhere.host_bridge(kNone), "0000:01:00.0");
  nowhere.nic(nowhere.host_bridge(kNone), "0000:02:00.0", "a");
  EXPECT_TRUE(place_rank(nowhere.build(), {}, {}).far_gpus.empty());
}

TEST(PlaceGpus, VisibleDevicesCountInPciOrder) {
  const Model model = four_gpus();
  const auto place = [&](int index, int count, const char* visible) {
    return place_rank(model,
                      {.index = index, .count = count, .cpus = kAll, .visible_gpus = visible}, {});
  };
  EXPECT_EQ(place(0, 1, "2").gpu, "0000:81:00.0");
  EXPECT_EQ(place(0, 1, "2").nic, "b");
  EXPECT_EQ(place(1, 2, "1,3").gpu, "0000:82:00.0");
  EXPECT_NE(place(1, 2, "1,3").gpu_reason.find("hides"), std::string::npos);
  EXPECT_EQ(place(0, 1, "3,9,0").gpu, "0000:82:00.0") << "what follows a bad number is hidden";
  for (const char* visible : {"", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135", "-1", "GPU0"}) {
    const RankPlacement none = place(0, 1, visible);
    EXPECT_EQ(none.gpu, "");
    EXPECT_NE(none.gpu_reason.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << none.gpu_reason;
    EXPECT_EQ(none.nic, "a") << "by its processors";
  }
}

TEST(PlaceGpus, TheVisibleOnesAreHandedOn) {
  const RankPlacement placement =
      place_rank(four_gpus(), {.index = 1, .count = 2, .cpus = kAll, .visible_gpus = "3,1"}, {});
  EXPECT_EQ(placement.gpu, "0000:02:00.0");
  EXPECT_EQ(placement.visible_gpus, (std::vector<std::string>{"0000:82:00.0", "0000:02:00.0"}));
}

TEST(PlaceGpus, OfTheMachinesOnlyThoseOfTheDriverCount) {
  const std::vector<DrivenGpu> one{{.pci = "0000:82:00.0", .uuid = "GPU-5c89c6a1-1111"}};
  const RankPlacement placement = place_rank(four_gpus(), {.cpus = kAll, .driven_gpus = one}, {});
  EXPECT_EQ(placement.gpu, "0000:82:00.0");
  EXPECT_EQ(placement.nic, "b");
  const RankPlacement none =
      place_rank(four_gpus(), {.cpus = kAll, .driven_gpus = std::vector<DrivenGpu>{}}, {});
  EXPECT_EQ(none.gpu, "") << "without NVIDIA's driver there are no GPUs";
  EXPECT_EQ(none.gpu_reason, "");
  EXPECT_TRUE(none.far_gpus.empty());
}

TEST(PlaceGpus, AUuidNamesOneOfTheDriversAlone) {
  const std::vector<DrivenGpu> two{{.pci = "0000:02:00.0", .uuid = "GPU-5c89c6a1-1111"},
                                   {.pci = "0000:82:00.0", .uuid = "GPU-5c89c6a1-2222"}};
  const auto named = [&](const char* gpu) {
    return place_rank(four_gpus(), {.cpus = kLow, .gpu = gpu, .driven_gpus = two}, {});
  };
  EXPECT_EQ(named("GPU-5c89c6a1-2222").gpu, "0000:82:00.0");
  EXPECT_EQ(named("GPU-5c89c6a1-2222").nic, "b");
  for (const char* word : {"GPU-5c89c6a1", "GPU-", "0000:01:00.0", "GPU0", "2"})
    EXPECT_EQ(named(word).gpu, "") << word;
  const RankPlacement seen = place_rank(
      four_gpus(), {.cpus = kLow, .visible_gpus = "GPU-5c89c6a1-2", .driven_gpus = two}, {});
  EXPECT_EQ(seen.gpu, "0000:82:00.0");
  EXPECT_EQ(seen.nic, "b");
}

TEST(PlaceGpus, AmongRanksThatEachSeeOneGpuNicsAreSharedEvenly) {
  Machine machine;
  machine.numa(0, 0, kAll);
  const int bridge = machine.host_bridge(0);
  for (const char* bus : {"1", "2"}) {
    machine.gpu(bridge, std::string("0000:0") + bus + ":00.0");
    machine.nic(bridge, std::string("0000:1") + bus + ":00.0", bus);
  }
  const Model model = machine.build();
  const auto nic = [&](int index, const std::string& visible) {
    return place_rank(model, {.index = index, .count = 2, .cpus = kAll, .visible_gpus = visible},
                      {})
        .nic;
  };
  EXPECT_NE(nic(0, "0"), nic(1, "1"));
  EXPECT_NE(nic(0, "0"), nic(1, "0")) << "one that all share, or a group's first";
}

/// A GPU of a recorded machine, as the rank of that number gets it.
struct Placed {
  std::string gpu{};
  std::string nic{};
  std::string far{};  ///< why the NIC should not reach it; empty: it may
};

/// One rank for each GPU, not bound.
void expect_placed(const std::string& file, const std::vector<Placed>& expected,
                   const Policy& policy = {}) {
  const std::string path = recorded_machine(file);
  if (path.empty())
    GTEST_SKIP() << "no captures of machines here: set WEFT_TEST_TOPOLOGIES to their folder";
  const Model model = import_file(path);
  ASSERT_EQ(model.gpus.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Placed& wanted = expected[i];
    const RankPlacement placement = place_rank(
        model, {.index = static_cast<int>(i), .count = static_cast<int>(expected.size())}, policy);
    SCOPED_TRACE(file + " rank " + std::to_string(i) + ": " + placement.gpu_reason + "; " +
                 placement.reason);
    EXPECT_EQ(placement.gpu, wanted.gpu);
    EXPECT_EQ(placement.nic, wanted.nic);
    EXPECT_NE(placement.gpu_reason.find(wanted.gpu), std::string::npos);
    std::string far;
    for (const FarGpu& one : placement.far_gpus)
      if (one.nic == wanted.nic && one.pci == wanted.gpu) far = one.reason;
    EXPECT_EQ(far, wanted.far);
  }
}

TEST(PlaceRecorded, PascalReachesBothGpus) {
  expect_placed("pascal-bdw-2xP100-hwloc.xml",
                {{"0000:04:00.0", "mlx5_0"}, {"0000:07:00.0", "mlx5_0"}});
}

TEST(PlaceRecorded, LassenStagesUnlessTheLevelSaysOtherwise) {
  const auto lassen = [](const std::string& far) {
    return std::vector<Placed>{{"0004:04:00.0", "mlx5_0", far},
                               {"0004:05:00.0", "mlx5_1", far},
                               {"0035:03:00.0", "mlx5_2", far},
                               {"0035:04:00.0", "mlx5_3", far}};
  };
  expect_placed("lassen-p9-4xV100-hwloc.xml", lassen("NODE is beyond PXB"));
  Policy far;
  far.gdr_level = PathClass::NODE;
  expect_placed("lassen-p9-4xV100-hwloc.xml", lassen(""), far);
}

TEST(PlaceRecorded, OciPairsByTheTree) {
  expect_placed("oci-bm-h100-nccl.xml", {{"0000:0f:00.0", "mlx5_0"},
                                         {"0000:2d:00.0", "mlx5_3"},
                                         {"0000:44:00.0", "mlx5_5"},
                                         {"0000:5b:00.0", "mlx5_7"},
                                         {"0000:89:00.0", "mlx5_9"},
                                         {"0000:a8:00.0", "mlx5_12"},
                                         {"0000:c0:00.0", "mlx5_14"},
                                         {"0000:d8:00.0", "mlx5_16"}});
}

/// The file names no RDMA devices, so a placement has none; the live machine's are put in its place
/// in a job.
TEST(PlaceRecorded, AzureNamesNoRdmaDeviceAndAGpuIsGivenAllTheSame) {
  std::vector<Placed> placed;
  for (const char* domain : {"0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"})
    placed.push_back({std::string(domain) + ":00:00.0", ""});
  expect_placed("azure-ndv4-nccl.xml", placed);
}

TEST(PlaceRecorded, WithNicsThatArentDrivenAGpuIsGivenAllTheSame) {
  const auto all = [](const std::vector<std::string>& buses) {
    std::vector<Placed> placed;
    for (const std::string& bus : buses) placed.push_back({"0000:" + bus + ".0", ""});
    return placed;
  };
  const std::vector<std::string> p4d{"10:1c", "10:1d", "20:1c", "20:1d",
                                     "90:1c", "90:1d", "a0:1c", "a0:1d"};
  expect_placed("aws-p4d.24xl-hwloc.xml", all(p4d));
  expect_placed("aws-p4d-nccl.xml", all(p4d));
  expect_placed("aws-p6-b200.48xl-hwloc.xml",
                all({"51:00", "52:00", "62:00", "63:00", "75:00", "76:00", "86:00", "87:00"}));
}

}  // namespace
}  // namespace weft::topology
