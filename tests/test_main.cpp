// The main function of every GoogleTest program. Exit code 77: no test ran. `--seed N` sets
// WEFT_TEST_SEED=N, which repeats the run of a test that draws a seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--seed") == 0) ::setenv("WEFT_TEST_SEED", argv[i + 1], 1);
  const int outcome = RUN_ALL_TESTS();
  const auto& run = *testing::UnitTest::GetInstance();
  if (outcome == 0 && run.skipped_test_count() > 0 && run.successful_test_count() == 0)
    return kSkipped;
  return outcome;
}
