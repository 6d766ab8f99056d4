// The main function of every GoogleTest program. Exit code 77: no test ran. `--seed N` sets
// WEFT_TEST_SEED=N, which repeats the run of a test that draws a seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSkipped = 77;

/// Tells RapidCheck, which prints the seed, what this environment tells the tests.
void set_up_properties() {
  std::string settings = "max_success=";
  settings += std::getenv("WEFT_TEST_FULL") == nullptr ? "1000" : "100000";
  if (const char* seed = std::getenv("WEFT_TEST_SEED")) settings.append(" seed=").append(seed);
  ::setenv("RC_PARAMS", settings.c_str(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--seed") == 0) ::setenv("WEFT_TEST_SEED", argv[i + 1], 1);
  set_up_properties();
  const int outcome = RUN_ALL_TESTS();
  const auto& run = *testing::UnitTest::GetInstance();
  if (outcome == 0 && run.skipped_test_count() > 0 && run.successful_test_count() == 0)
    return kSkipped;
  return outcome;
}
