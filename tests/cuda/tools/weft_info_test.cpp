// weft-info --gpu as a user runs it.
#include <gtest/gtest.h>

#include <cstdlib>

#include <nlohmann/json.hpp>
#include <string>

#include "p2p/transport/cuda/kernels/kernel_image.hpp"
#include "tests/support/shell.hpp"

namespace weft {
namespace {

/// The tool on the stand-in with these options, which judges the process as it ends.
tests::ShellOutcome info(const std::string& options, const std::string& more = {},
                         const std::string& setting = {}) {
  return tests::run_shell("WEFT_TEST_CUDA='" + options + " strict' " + setting +
                          " '" WEFT_INFO "' --gpu " + more + " 2>&1");
}

TEST(WeftInfoOfGpus, SaysEachPathWithItsReasonAndLeavesNothingBehind) {
  if (std::getenv("WEFT_TEST_STAND_IN") == nullptr) GTEST_SKIP() << "needs the stand-in";
  const auto all = info("gpus=2");
  EXPECT_EQ(all.exit_code, 0) << all.output;
  for (const char* part : {"driver   of CUDA 12.4", "GPU 0 ", "GPU 1 ", "this process's",
                           "own GPU  0: one of 2 in turn", "copies   of GPU 0 into GPU 1: mapped",
                           "copies   of GPU 1 into GPU 0: mapped", "stream words   yes", "NIC "})
    EXPECT_TRUE(all.has(part)) << part << "\n" << all.output;
  if (p2p::cuda::has_kernels())
    EXPECT_TRUE(all.has("kernels  yes: built by nvcc")) << all.output;
  else
    EXPECT_TRUE(all.has("kernels  no: weft was built without nvcc") && all.has("-DWEFT_CUDA=ON"))
        << all.output;
  const auto lossy = info("gpus=2 lossy");
  EXPECT_TRUE(lossy.has("copies   of GPU 0 into GPU 1: staged: what the writer's GPU writes"))
      << lossy.output;
  const auto no_peers = info("gpus=2 no_peers");
  EXPECT_TRUE(no_peers.has("into GPU 1: staged: the writer's GPU can't access the owner's"))
      << no_peers.output;
  const auto own = info("gpus=2", "", "WEFT_GPU=1");
  EXPECT_TRUE(own.has("own GPU  1: WEFT_GPU=1")) << own.output;
  EXPECT_EQ(info("gpus=2", "", "WEFT_GPU=7").exit_code, 2);
}

TEST(WeftInfoOfGpus, SaysTheSameAsJson) {
  if (std::getenv("WEFT_TEST_STAND_IN") == nullptr) GTEST_SKIP() << "needs the stand-in";
  const auto outcome = info("gpus=2 no_peers", "--json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["schema"], "weft-gpu/1");
  EXPECT_TRUE(json["none"].is_null());
  EXPECT_EQ(json["kernels"]["works"], p2p::cuda::has_kernels());
  ASSERT_EQ(json["gpus"].size(), 2U);
  EXPECT_EQ(json["gpus"][1]["gpu"], 1);
  EXPECT_EQ(json["gpus"][1]["copies"]["works"], true);
  ASSERT_EQ(json["pairs"].size(), 4U);
  for (const auto& pair : json["pairs"])
    EXPECT_EQ(pair["way"], pair["writer"] == pair["owner"] ? "mapped" : "staged");
}

TEST(WeftInfoOfGpus, WithoutADriverOrAGpuOneLineSaysSo) {
  if (std::getenv("WEFT_TEST_STAND_IN") == nullptr) GTEST_SKIP() << "needs the stand-in";
  const auto none = info("gpus=0");
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.lines(), 1) << none.output;
  EXPECT_TRUE(none.has("no GPU: the CUDA driver sees no GPU")) << none.output;
  const auto named = info("gpus=0", "", "WEFT_GPU=7");
  EXPECT_EQ(named.exit_code, 2) << "it names none that is here";
  EXPECT_TRUE(named.has("WEFT_GPU=7: the CUDA driver sees no GPU")) << named.output;
  const auto old = info("version=11080");
  EXPECT_EQ(old.exit_code, 0);
  EXPECT_TRUE(old.has("no GPU: the CUDA driver is of 11.8, and weft needs 12.0")) << old.output;
  const auto json = nlohmann::json::parse(info("gpus=0", "--json").output);
  EXPECT_TRUE(json["none"].is_string());
}

}  // namespace
}  // namespace weft
