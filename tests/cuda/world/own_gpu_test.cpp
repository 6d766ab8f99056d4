// Which GPU is a rank's: what WEFT_GPU names, what topology gives, or the next in turn.
#include "p2p/transport/cuda/own_gpu.hpp"

#include "tests/cuda/world/gpu_rank.hpp"

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
    return three;
  }
  OwnGpu chosen(const GpuWish& wish) { return choose_own_gpu(driver(), wish, "test"); }
};

TEST_F(OwnGpuChoice, TopologysIsFoundByItsPciAddress) {
  const OwnGpu own = chosen({.index = 2, .pci = "0004:0a:00.0", .reason = "near"});
  EXPECT_EQ(own.ordinal, 1);
  EXPECT_EQ(own.reason, "near");
}

TEST_F(OwnGpuChoice, TheSettingGoesFirst) {
  EXPECT_EQ(chosen({.setting = "2", .pci = "0004:0a:00.0"}).ordinal, 2);
  EXPECT_EQ(chosen({.setting = uuid_text_of(driver(), 2), .pci = "0004:0a:00.0"}).ordinal, 2);
}

TEST_F(OwnGpuChoice, OneThatIsHiddenIsSaidAndTheNextInTurnTaken) {
  const OwnGpu own = chosen({.index = 4, .pci = "0000:77:00.0", .reason = "near"});
  EXPECT_EQ(own.ordinal, 1);
  for (const char* words : {"in turn", "0000:77:00.0", "CUDA_VISIBLE_DEVICES"})
    EXPECT_NE(own.reason.find(words), std::string::npos) << own.reason;
}

TEST_F(OwnGpuChoice, WithoutTopologyTheyAreTakenInTurnAndItsReasonSaid) {
  EXPECT_EQ(chosen({.index = 5}).ordinal, 2);
  EXPECT_NE(chosen({.reason = "no driver of NVIDIA's"}).reason.find("no driver of NVIDIA's"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::tests
