// Which GPU and which NIC a rank gets together, and where its tensors would be staged.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/recorded.hpp"
#include "topology/import/import.hpp"
#include "topology/placement/gpu_choice.hpp"
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

TEST(PlaceGpus, UnboundRanksTakeThemInTurn) {
  EXPECT_EQ(gpus_of(four_gpus(), std::vector(6, kAll)),
            (Buses{"01", "02", "81", "82", "01", "02"}));
}

TEST(PlaceGpus, BoundRanksTakeThoseOfTheirSocket) {
  EXPECT_EQ(gpus_of(four_gpus(), {kLow, kHigh, kLow, kHigh}), (Buses{"01", "81", "02", "82"}));
  EXPECT_EQ(gpus_of(four_gpus(), {kLow, kLow, kHigh, kHigh}), (Buses{"01", "02", "81", "82"}));
  EXPECT_EQ(gpus_of(four_gpus(), {kHigh}), Buses{"81"});
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

TEST(PlaceGpus, TheLevelSaysWhichTheNicShouldReach) {
  const Model model = four_gpus();
  const auto reached = [&](PathClass level) {
    Policy policy;
    policy.gdr_level = level;
    std::map<std::string, bool> seen;
    const RankPlacement placement = place_rank(model, {.cpus = kLow}, policy);
    EXPECT_EQ(placement.gdr, placement.gpus.at(0).gdr);
    for (const GpuPlacement& gpu : placement.gpus) {
      seen[gpu.pci.substr(5, 2)] = gpu.gdr;
      EXPECT_NE(gpu.reason.find(gpu.gdr ? "is within" : "is beyond"), std::string::npos);
      EXPECT_EQ(gpu.staging, 0) << "beside the NIC";
    }
    return seen;
  };
  using Seen = std::map<std::string, bool>;
  EXPECT_EQ(reached(PathClass::PXB),
            (Seen{{"01", false}, {"02", false}, {"81", false}, {"82", false}}));
  EXPECT_EQ(reached(PathClass::PHB),
            (Seen{{"01", true}, {"02", true}, {"81", false}, {"82", false}}));
  EXPECT_EQ(reached(PathClass::SYS),
            (Seen{{"01", true}, {"02", true}, {"81", true}, {"82", true}}));
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
  for (const char* visible : {"", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135", "-1"}) {
    const RankPlacement none = place(0, 1, visible);
    EXPECT_EQ(none.gpu, "");
    EXPECT_NE(none.gpu_reason.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << none.gpu_reason;
    EXPECT_EQ(none.nic, "a") << "by its processors";
  }
}

TEST(PlaceGpus, OfTheMachinesOnlyThoseOfTheDriverCount) {
  const RankOnHost contained{.cpus = kAll, .driven_gpus = {"0000:82:00.0"}};
  EXPECT_EQ(place_rank(four_gpus(), contained, {}).gpu, "0000:82:00.0");
  EXPECT_EQ(place_rank(four_gpus(), contained, {}).nic, "b");
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
  std::map<std::string, int> load;
  for (int i = 0; i < 2; ++i)
    ++load[place_rank(model,
                      {.index = i, .count = 2, .cpus = kAll, .visible_gpus = std::to_string(i)}, {})
               .nic];
  EXPECT_EQ(load.size(), 2U);
}

TEST(PlaceGpus, WithoutANicTheGpuIsGivenAllTheSame) {
  const RankPlacement placement = only_gpu(four_gpus(), {.cpus = kHigh}, {});
  EXPECT_EQ(placement.gpu, "0000:81:00.0");
  EXPECT_EQ(placement.nic, "");
  EXPECT_FALSE(placement.gdr);
  EXPECT_EQ(placement.staging, 1) << "beside the GPU";
  EXPECT_EQ(placement.numa, kNone);
}

/// A GPU of a recorded machine, as the rank of that number gets it.
struct Placed {
  std::string gpu{};
  std::string nic{};
  bool gdr = false;
  int staging = -1;
  std::string reason{};  ///< words of why the NIC should reach it, or should not
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
    EXPECT_EQ(placement.gdr, wanted.gdr);
    EXPECT_NE(placement.gpu_reason.find(wanted.gpu), std::string::npos);
    for (const GpuPlacement& gpu : placement.gpus)
      if (gpu.pci == wanted.gpu) {
        EXPECT_EQ(gpu.gdr, wanted.gdr);
        EXPECT_EQ(gpu.staging, wanted.staging);
        EXPECT_NE(gpu.reason.find(wanted.reason), std::string::npos) << gpu.reason;
      }
    for (const GpuPlacement& gpu : placement.gpus) EXPECT_FALSE(gpu.reason.empty());
  }
}

TEST(PlaceRecorded, PascalReachesBothGpus) {
  expect_placed("pascal-bdw-2xP100-hwloc.xml", {{"0000:04:00.0", "mlx5_0", true, 0, "PIX"},
                                                {"0000:07:00.0", "mlx5_0", true, 0, "PIX"}});
}

TEST(PlaceRecorded, LassenStagesUnlessTheLevelSaysOtherwise) {
  const auto lassen = [](bool gdr, const std::string& words) {
    return std::vector<Placed>{{"0004:04:00.0", "mlx5_0", gdr, 0, words},
                               {"0004:05:00.0", "mlx5_1", gdr, 0, words},
                               {"0035:03:00.0", "mlx5_2", gdr, 8, words},
                               {"0035:04:00.0", "mlx5_3", gdr, 8, words}};
  };
  expect_placed("lassen-p9-4xV100-hwloc.xml", lassen(false, "NODE is beyond PXB"));
  Policy far;
  far.gdr_level = PathClass::NODE;
  expect_placed("lassen-p9-4xV100-hwloc.xml", lassen(true, "is within NODE"), far);
}

TEST(PlaceRecorded, OciPairsByTheTree) {
  expect_placed("oci-bm-h100-nccl.xml", {{"0000:0f:00.0", "mlx5_0", true, 0, "PXB"},
                                         {"0000:2d:00.0", "mlx5_3", true, 0, "PXB"},
                                         {"0000:44:00.0", "mlx5_5", true, 0, "PXB"},
                                         {"0000:5b:00.0", "mlx5_7", true, 0, "PXB"},
                                         {"0000:89:00.0", "mlx5_9", true, 1, "PXB"},
                                         {"0000:a8:00.0", "mlx5_12", true, 1, "PXB"},
                                         {"0000:c0:00.0", "mlx5_14", true, 1, "PXB"},
                                         {"0000:d8:00.0", "mlx5_16", true, 1, "PXB"}});
}

/// The file names no RDMA devices, so a placement has none; the live machine's are put in its place
/// in a job.
TEST(PlaceRecorded, AzureGivesEachGpuItsNeighbour) {
  expect_placed("azure-ndv4-nccl.xml", {{"0001:00:00.0", "", true, 1, "PIX"},
                                        {"0002:00:00.0", "", true, 1, "PIX"},
                                        {"0003:00:00.0", "", true, 0, "PIX"},
                                        {"0004:00:00.0", "", true, 0, "PIX"},
                                        {"000b:00:00.0", "", true, 3, "PIX"},
                                        {"000c:00:00.0", "", true, 3, "PIX"},
                                        {"000d:00:00.0", "", true, 2, "PIX"},
                                        {"000e:00:00.0", "", true, 2, "PIX"}});
}

TEST(PlaceRecorded, OfNicsThatArentDrivenNothingIsReached) {
  const auto all = [](std::vector<std::pair<std::string, int>> gpus) {
    std::vector<Placed> placed;
    for (const auto& [bus, numa] : gpus)
      placed.push_back({"0000:" + bus + ".0", "", false, numa, "no NIC is used"});
    return placed;
  };
  expect_placed("aws-p4d.24xl-hwloc.xml", all({{"10:1c", 0},
                                               {"10:1d", 0},
                                               {"20:1c", 0},
                                               {"20:1d", 0},
                                               {"90:1c", 1},
                                               {"90:1d", 1},
                                               {"a0:1c", 1},
                                               {"a0:1d", 1}}));
  expect_placed("aws-p4d-nccl.xml", all({{"10:1c", 0},
                                         {"10:1d", 0},
                                         {"20:1c", 0},
                                         {"20:1d", 0},
                                         {"90:1c", 1},
                                         {"90:1d", 1},
                                         {"a0:1c", 1},
                                         {"a0:1d", 1}}));
  expect_placed("aws-p6-b200.48xl-hwloc.xml", all({{"51:00", 0},
                                                   {"52:00", 0},
                                                   {"62:00", 0},
                                                   {"63:00", 0},
                                                   {"75:00", 1},
                                                   {"76:00", 1},
                                                   {"86:00", 1},
                                                   {"87:00", 1}}));
}

}  // namespace
}  // namespace weft::topology
