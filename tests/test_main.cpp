// The main of every GoogleTest program: exit code 77 says that nothing was tested.
#include <gtest/gtest.h>

namespace {

constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int outcome = RUN_ALL_TESTS();
  const auto& run = *testing::UnitTest::GetInstance();
  if (outcome == 0 && run.skipped_test_count() > 0 && run.successful_test_count() == 0)
    return kSkipped;
  return outcome;
}
