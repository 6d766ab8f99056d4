#include "p2p/transport/cuda/api/load.hpp"

#include <gtest/gtest.h>

#include "tests/cuda/rig.hpp"
#include "tests/support/errors.hpp"

namespace weft::tests {
namespace {

/// The stand-in's own answers, before and during its start.
class CudaLoad : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(control_, nullptr);
    control_->restart({});
  }
  void TearDown() override { control_->restart({}); }

  static Status load(const char* file = "libcuda.so.1") {
    Driver driver;
    return load_driver_from(file, driver);
  }
  stand_in::Control* control_ = stand_in::control();
};

TEST_F(CudaLoad, SaysWhatToInstallWhereThereIsNoDriver) {
  const Status status = load("libweft-nothing.so.1");
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.text().find("there is no CUDA driver"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("libweft-nothing.so.1"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("install NVIDIA's driver"), std::string::npos) << status.text();
}

TEST_F(CudaLoad, NamesTheFunctionThatALibraryLacks) {
  const Status status = load("libc.so.6");
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.text().find("libc.so.6 has no cuInit"), std::string::npos) << status.text();
}

TEST_F(CudaLoad, TellsBothVersionsOfADriverThatIsTooOld) {
  control_->restart({.driver_version = 11080});
  const Status status = load();
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.text().find("of 11.8, and weft needs 12.0 or later"), std::string::npos)
      << status.text();
  EXPECT_EQ(control_->calls("cuInit"), 0U);
}

TEST_F(CudaLoad, TakesTheOldestDriverThatWillDo) {
  control_->restart({.driver_version = kOldestDriver});
  EXPECT_TRUE(load().ok()) << load().text();
}

TEST_F(CudaLoad, SaysThatNoGpuIsVisible) {
  control_->restart({.gpus = {}});
  const Status status = load();
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.text().find("sees no GPU"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("CUDA_VISIBLE_DEVICES"), std::string::npos) << status.text();
}

TEST_F(CudaLoad, SaysWhyADriverRefusesToStart) {
  control_->refuse("cuInit", 1, DriverStatus::unknown);
  const Status status = load();
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.text().find("refuses to start: CUDA_ERROR_UNKNOWN ("), std::string::npos)
      << status.text();
}

TEST_F(CudaLoad, HappensOnceAndMakesNoContext) {
  const auto driver = load_driver();
  ASSERT_TRUE(driver.ok()) << driver.status().text();
  EXPECT_EQ(*load_driver(), *driver);
  unsigned flags = 0;
  int active = 1;
  ASSERT_OK((*driver)->context_state(0, &flags, &active));
  EXPECT_EQ(active, 0);
}

TEST_F(CudaLoad, ErrorsAreNamedAsPeopleLookThemUp) {
  const auto driver = load_driver();
  ASSERT_TRUE(driver.ok()) << driver.status().text();
  EXPECT_EQ(error_text(**driver, DriverStatus::out_of_memory),
            "CUDA_ERROR_OUT_OF_MEMORY (as the stand-in driver says)");
  EXPECT_EQ(error_text(**driver, static_cast<DriverStatus>(4711)), "error 4711");
}

}  // namespace
}  // namespace weft::tests
