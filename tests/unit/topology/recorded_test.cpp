// The right choices for real machines.
#include "tests/unit/topology/recorded.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "topology/select/select.hpp"

namespace weft::topology {
namespace {

/// The NIC that one GPU of a machine must get.
struct Expected {
  std::string nic{};
  std::string path_class{};
  bool gdr = false;
  int bounce_numa = kNone;
  std::vector<std::string> rails{};
};

class Recorded : public testing::Test {
 protected:
  void load(const std::string& file) {
    const std::string path = recorded_machine(file);
    if (path.empty())
      GTEST_SKIP() << "no captures of machines here: set WEFT_TEST_TOPOLOGIES to their folder";
    model_ = import_file(path);
    selection_ = select(model_, rank_per_gpu(model_));
  }

  std::string nic_name(int nic) const {
    return nic == kNone ? "none" : model_.nics[static_cast<std::size_t>(nic)].name;
  }

  /// Checks the choices, also after the model went through JSON.
  void expect(const std::map<std::string, Expected>& gpus) {
    check(gpus);
    model_ = import_text(to_json(model_, selection_), "round trip");
    selection_ = select(model_, rank_per_gpu(model_));
    check(gpus);
  }

  void check(const std::map<std::string, Expected>& gpus) const {
    ASSERT_EQ(selection_.choices.size(), gpus.size());
    for (const Choice& choice : selection_.choices) {
      const auto address = model_.address_of(model_.gpus.at(static_cast<std::size_t>(choice.gpu)));
      ASSERT_TRUE(address && gpus.contains(address->text())) << address->text();
      const Expected& expected = gpus.at(address->text());
      SCOPED_TRACE(address->text() + ": " + choice.reason);
      EXPECT_EQ(nic_name(choice.nic), expected.nic);
      EXPECT_EQ(name(choice.path.path_class), expected.path_class);
      EXPECT_EQ(choice.gdr, expected.gdr);
      EXPECT_EQ(choice.bounce_numa, expected.bounce_numa);
      std::vector<std::string> rails;
      for (const int rail : choice.rails) rails.push_back(nic_name(rail));
      EXPECT_EQ(rails, expected.rails);
    }
  }

  Model model_;
  Selection selection_;
};

TEST_F(Recorded, PascalSharesItsOneNicByOneSwitch) {
  load("pascal-bdw-2xP100-hwloc.xml");
  if (IsSkipped()) return;
  EXPECT_EQ(model_.host, "pascal4");
  EXPECT_EQ(model_.numa_of(model_.nics.at(static_cast<std::size_t>(find_nic(model_, "mlx5_0")))),
            0);
  expect({{"0000:04:00.0", {"mlx5_0", "PIX", true, kNone, {"mlx5_0"}}},
          {"0000:07:00.0", {"mlx5_0", "PIX", true, kNone, {"mlx5_0"}}}});
}

TEST_F(Recorded, ARankOfPascalsOtherPackageStagesBesideTheNic) {
  load("pascal-bdw-2xP100-hwloc.xml");
  if (IsSkipped()) return;
  const Selection selection =
      select(model_, {{.rank = 0, .gpu = kNone, .cpus = model_.packages.at(1).cpus}});
  const Choice& choice = selection.choices.at(0);
  EXPECT_EQ(nic_name(choice.nic), "mlx5_0");
  EXPECT_EQ(choice.path.path_class, PathClass::SYS);
  EXPECT_EQ(choice.bounce_numa, 0);
  EXPECT_EQ(choice.numa, 1);
}

TEST_F(Recorded, LassenSpreadsOverTheFunctionsOfTheCardOfItsNumaNode) {
  load("lassen-p9-4xV100-hwloc.xml");
  if (IsSkipped()) return;
  const std::vector<std::string> first{"mlx5_0", "mlx5_1"};
  const std::vector<std::string> second{"mlx5_2", "mlx5_3"};
  expect({{"0004:04:00.0", {"mlx5_0", "NODE", false, 0, first}},
          {"0004:05:00.0", {"mlx5_1", "NODE", false, 0, first}},
          {"0035:03:00.0", {"mlx5_2", "NODE", false, 8, second}},
          {"0035:04:00.0", {"mlx5_3", "NODE", false, 8, second}}});
}

TEST_F(Recorded, AwsByHwlocSharesAHostBridge) {
  load("aws-p4d.24xl-hwloc.xml");
  if (IsSkipped()) return;
  const auto at = [](const std::string& nic, int numa) {
    return Expected{nic, "PHB", false, numa, {nic}};
  };
  expect({{"0000:10:1c.0", at("rdmap16s27", 0)},
          {"0000:10:1d.0", at("rdmap16s27", 0)},
          {"0000:20:1c.0", at("rdmap32s27", 0)},
          {"0000:20:1d.0", at("rdmap32s27", 0)},
          {"0000:90:1c.0", at("rdmap144s27", 1)},
          {"0000:90:1d.0", at("rdmap144s27", 1)},
          {"0000:a0:1c.0", at("rdmap160s27", 1)},
          {"0000:a0:1d.0", at("rdmap160s27", 1)}});
}

TEST_F(Recorded, AwsByNcclSharesASwitch) {
  load("aws-p4d-nccl.xml");
  if (IsSkipped()) return;
  const auto at = [](const std::string& nic) { return Expected{nic, "PIX", true, kNone, {nic}}; };
  expect({{"0000:10:1c.0", at("0000:10:1b.0")},
          {"0000:10:1d.0", at("0000:10:1b.0")},
          {"0000:20:1c.0", at("0000:20:1b.0")},
          {"0000:20:1d.0", at("0000:20:1b.0")},
          {"0000:90:1c.0", at("0000:90:1b.0")},
          {"0000:90:1d.0", at("0000:90:1b.0")},
          {"0000:a0:1c.0", at("0000:a0:1b.0")},
          {"0000:a0:1d.0", at("0000:a0:1b.0")}});
}

TEST_F(Recorded, AwsB200TakesTheEfasAndNotThePortsThatManageNvlink) {
  load("aws-p6-b200.48xl-hwloc.xml");
  if (IsSkipped()) return;
  EXPECT_EQ(model_.gpus.size(), 8U);  // not the console's 1d0f:1111
  const auto at = [](const std::string& nic, const std::string& other) {
    return Expected{"rdmap" + nic, "PIX", true, kNone,
                    nic < other ? std::vector{"rdmap" + nic, "rdmap" + other}
                                : std::vector{"rdmap" + other, "rdmap" + nic}};
  };
  expect({{"0000:51:00.0", at("79s0", "80s0")},
          {"0000:52:00.0", at("80s0", "79s0")},
          {"0000:62:00.0", at("96s0", "97s0")},
          {"0000:63:00.0", at("97s0", "96s0")},
          {"0000:75:00.0", at("113s0", "114s0")},
          {"0000:76:00.0", at("114s0", "113s0")},
          {"0000:86:00.0", at("132s0", "133s0")},
          {"0000:87:00.0", at("133s0", "132s0")}});
  for (const char* manages : {"ibp115s0f0", "ibp116s0f0"}) {
    const auto nic = static_cast<std::size_t>(find_nic(model_, manages));
    EXPECT_EQ(model_.nics.at(nic).rdma, manages);
    EXPECT_FALSE(selection_.nics.at(nic).usable);
    EXPECT_NE(selection_.nics.at(nic).reason.find("16 times narrower"), std::string::npos)
        << selection_.nics.at(nic).reason;
  }
  const Selection in_a_job = select(model_, rank_per_gpu(model_), {.driven_only = true});
  for (const Choice& choice : in_a_job.choices) {
    EXPECT_EQ(choice.nic, kNone);
    EXPECT_NE(choice.reason.find("EFA has no RC queue pairs"), std::string::npos) << choice.reason;
  }
}

TEST_F(Recorded, AzureGivesEachGpuANicOfItsOwn) {
  load("azure-ndv4-nccl.xml");
  if (IsSkipped()) return;
  const auto at = [](const std::string& nic, const std::string& other) {
    const std::string own = nic + ":00:00.0";
    const std::string second = other + ":00:00.0";
    return Expected{own, "PIX", true, kNone,
                    own < second ? std::vector{own, second} : std::vector{second, own}};
  };
  expect({{"0001:00:00.0", at("0101", "0102")},
          {"0002:00:00.0", at("0102", "0101")},
          {"0003:00:00.0", at("0103", "0104")},
          {"0004:00:00.0", at("0104", "0103")},
          {"000b:00:00.0", at("0105", "0106")},
          {"000c:00:00.0", at("0106", "0105")},
          {"000d:00:00.0", at("0107", "0108")},
          {"000e:00:00.0", at("0108", "0107")}});
  const std::map<std::string, int> numa{{"0001", 1}, {"0003", 0}, {"000b", 3}, {"000d", 2}};
  for (const auto& [domain, node] : numa)
    EXPECT_EQ(model_.numa_of(
                  model_.gpus.at(static_cast<std::size_t>(find_gpu(model_, domain + ":00:00.0")))),
              node);
}

TEST_F(Recorded, OciPairsByTheTreeAndNotByNumbers) {
  load("oci-bm-h100-nccl.xml");
  if (IsSkipped()) return;
  const auto at = [](int first) {
    const std::string own = "mlx5_" + std::to_string(first);
    return Expected{own, "PXB", true, kNone, {own, "mlx5_" + std::to_string(first + 1)}};
  };
  expect({{"0000:0f:00.0", at(0)},
          {"0000:2d:00.0", at(3)},
          {"0000:44:00.0", at(5)},
          {"0000:5b:00.0", at(7)},
          {"0000:89:00.0", at(9)},
          {"0000:a8:00.0", at(12)},
          {"0000:c0:00.0", at(14)},
          {"0000:d8:00.0", at(16)}});
  EXPECT_EQ(path_between(model_, model_.gpus.at(0), model_.gpus.at(7)).path_class, PathClass::NVL);
}

}  // namespace
}  // namespace weft::topology
