// Kernels on the stand-in: bodies for the processor, launched by name; and the stand-in as its
// environment sets it up.
#include <sys/wait.h>

#include <filesystem>

#include "tests/cuda/rig.hpp"

namespace weft::tests {
namespace {

class Twins : public OnDriver {};

TEST_F(Twins, AKernelIsLaunchedByNameWithTheParametersOfItsTime) {
  control()->add_twin("add", {.parameter_bytes = {sizeof(DevicePointer), sizeof(int)},
                              .run = [this](const stand_in::Launch& launch) {
                                const auto pointer = launch.parameter<DevicePointer>(0);
                                const std::size_t threads = launch.grid.x * launch.block.x;
                                auto* values = reinterpret_cast<int*>(control()->reach(
                                    pointer, threads * sizeof(int), launch.device));
                                ASSERT_NE(values, nullptr);
                                for (std::size_t i = 0; i < threads; ++i)
                                  values[i] += launch.parameter<int>(1);
                              }});
  Module module = nullptr;
  Function function = nullptr, none = nullptr;
  EXPECT_OK(driver().load_module(&module, "image"));
  EXPECT_OK(driver().function(&function, module, "add"));
  EXPECT_EQ(driver().function(&none, module, "subtract"), DriverStatus::not_found);
  DevicePointer pointer = allocate(256 * sizeof(int));
  fill(pointer, 256 * sizeof(int), 0);
  int amount = 5;
  void* parameters[] = {&pointer, &amount};
  EXPECT_OK(driver().launch(function, 2, 1, 1, 128, 1, 1, 0, stream(), parameters, nullptr));
  amount = 1000;
  const auto bytes = read(pointer, 256 * sizeof(int));
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(bytes[i * sizeof(int)], 5);
  EXPECT_EQ(driver().launch(function, 1, 1, 1, 2048, 1, 1, 0, stream(), parameters, nullptr),
            DriverStatus::invalid_value);
  EXPECT_OK(driver().free(pointer));
  EXPECT_OK(driver().unload_module(module));
}

/// Runs one test of this program with WEFT_TEST_CUDA, and gives its exit code.
int run_with(const std::string& options, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "WEFT_TEST_CUDA='" + options + "' " + program +
                              " --gtest_also_run_disabled_tests --gtest_filter=" + test +
                              " >/dev/null 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

/// Serves the next test, in another process.
TEST(Environment, DISABLED_LeavesAContext) {
  Context context = nullptr;
  int count = 0;
  ASSERT_OK((*load_driver())->retain_context(&context, 0));
  ASSERT_OK((*load_driver())->device_count(&count));
  EXPECT_EQ(count, 3);
}

TEST(Environment, SetsTheStandInUpAndJudgesItsProcessAtTheEnd) {
  if (stand_in::control() == nullptr) GTEST_SKIP() << "this machine has a driver of its own";
  EXPECT_EQ(run_with("gpus=3 lazy seed=7", "Environment.DISABLED_LeavesAContext"), 0);
  EXPECT_EQ(run_with("gpus=3 strict", "Environment.DISABLED_LeavesAContext"), 97);
  EXPECT_EQ(run_with("gpus=3 lzay", "Environment.DISABLED_LeavesAContext"), 97);
}

}  // namespace
}  // namespace weft::tests
