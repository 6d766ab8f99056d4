// The contract with the driver: devices and contexts.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "p2p/transport/cuda/api/mps.hpp"
#include "tests/cuda/rig.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

class ContextContract : public OnDriver {};

TEST_F(ContextContract, ThePrimaryContextOfAGpuIsOne) {
  Context again = nullptr;
  EXPECT_OK(driver().retain_context(&again, 0));
  EXPECT_EQ(again, context());
  EXPECT_OK(driver().release_context(0));
  Context current = nullptr;
  EXPECT_OK(driver().current_context(&current));
  EXPECT_EQ(current, context());
}

TEST_F(ContextContract, PoppingBringsBackWhatWasCurrent) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU";
  Context other = nullptr, popped = nullptr, current = nullptr;
  EXPECT_OK(driver().retain_context(&other, 1));
  EXPECT_OK(driver().push_context(other));
  Device device = -1;
  EXPECT_OK(driver().context_device(&device));
  EXPECT_EQ(device, 1);
  EXPECT_OK(driver().pop_context(&popped));
  EXPECT_EQ(popped, other);
  EXPECT_OK(driver().current_context(&current));
  EXPECT_EQ(current, context());
  EXPECT_OK(driver().release_context(1));
}

TEST_F(ContextContract, AThreadBeginsWithoutOne) {
  std::thread([this] {
    Context current = context();
    EXPECT_OK(driver().current_context(&current));
    EXPECT_EQ(current, nullptr);
    DevicePointer pointer = 0;
    EXPECT_EQ(driver().allocate(&pointer, 64), DriverStatus::invalid_context);
    EXPECT_OK(driver().set_context(context()));
    EXPECT_OK(driver().allocate(&pointer, 64));
    EXPECT_OK(driver().free(pointer));
    EXPECT_OK(driver().set_context(nullptr));
  }).join();
  if (control() != nullptr) {
    EXPECT_EQ(control()->take_complaints().size(), 1U);
  }
}

TEST_F(ContextContract, AStreamKnowsItsContextWhicheverIsCurrent) {
  Context of_stream = nullptr;
  const StreamHandle here = stream();
  std::thread([&] {
    EXPECT_OK(driver().stream_context(here, &of_stream));
    EXPECT_OK(driver().query_stream(here));
    EXPECT_OK(driver().synchronize_stream(here));
  }).join();
  EXPECT_EQ(of_stream, context());
}

TEST_F(ContextContract, GpusHaveNamesNumbersAndPlaces) {
  int count = 0;
  EXPECT_OK(driver().device_count(&count));
  ASSERT_GE(count, 1);
  std::vector<Uuid> seen;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Device device = -1;
    EXPECT_OK(driver().device(&device, ordinal));
    char text[128] = {};
    EXPECT_OK(driver().device_name(text, sizeof text, device));
    EXPECT_STRNE(text, "");
    EXPECT_OK(driver().device_bus_id(text, sizeof text, device));
    unsigned domain = 0, bus = 0, slot = 0;
    EXPECT_EQ(std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot), 3) << text;
    Uuid uuid{};
    EXPECT_OK(driver().device_uuid(&uuid, device));
    for (const Uuid& other : seen) EXPECT_NE(uuid.bytes, other.bytes);
    seen.push_back(uuid);
  }
  Device none = -1;
  EXPECT_EQ(driver().device(&none, count), DriverStatus::invalid_device);
}

TEST_F(ContextContract, TellsOfMpsOrDoesNotKnowTheQuestion) {
  int enabled = -1;
  const DriverStatus status = driver().device_attribute(&enabled, kMpsEnabled, 0);
  if (status == DriverStatus::success) {
    EXPECT_TRUE(enabled == 0 || enabled == 1) << enabled;
    EXPECT_EQ(runs_under_mps(driver(), 0), enabled == 1);
  } else {
    EXPECT_EQ(status, DriverStatus::invalid_value);
  }
}

/// A driver that does not know the question.
class OldContract : public OnDriver {
 protected:
  stand_in::Options options() const override {
    stand_in::Options old;
    old.gpus[0].attributes = {{kMpsEnabled, std::nullopt}};
    return old;
  }
};

TEST_F(OldContract, AControlDaemonsPipeTellsOfMps) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  const TempFolder folder;
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  EXPECT_FALSE(runs_under_mps(driver(), 0));
  std::ofstream(folder.path() / "control") << "";
  EXPECT_TRUE(runs_under_mps(driver(), 0));
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

TEST_F(ContextContract, EveryGpuHasWhatWeftCantDoWithout) {
  for (const auto attribute :
       {DeviceAttribute::unified_addressing, DeviceAttribute::virtual_memory,
        DeviceAttribute::export_by_descriptor, DeviceAttribute::host_pointer_usable}) {
    int value = 0;
    EXPECT_OK(driver().device_attribute(&value, attribute, 0));
    EXPECT_NE(value, 0) << static_cast<unsigned>(attribute);
  }
}

}  // namespace
}  // namespace weft::tests
