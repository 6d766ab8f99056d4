// Groups whose opening has failed on a rank, and the next ones of the same ranks.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/errors.hpp"
#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShort{100};

struct Case {
  const char* fabric;
  int ranks;
};

/// 12 ranks by TCP are more than those that all hear from each other.
class Opening : public testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void(World&)>& body) {
    run_on(GetParam().ranks, settings().with(Setting::fabric, GetParam().fabric), body);
  }
};

Status sum_on_all(World& world) {
  Collectives group = Collectives::open(world);
  const Tensor tensor = world.allocate(DType::i32, {1});
  tensor.as<std::int32_t>()[0] = 1;
  const Status status = group.run(all_reduce(tensor, Reduction::sum));
  EXPECT_TRUE(!status.ok() || tensor.as<std::int32_t>()[0] == world.size());
  return status;
}

/// A rank may open a group just before it hears that another has given it up. Its first call then
/// fails at once.
void sum_after_failures(World& world) {
  const auto start = Clock::now();
  Status status = sum_on_all(world);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), Code::closed) << status.text();
    EXPECT_LT(Clock::now() - start, seconds(10));
    status = sum_on_all(world);
  }
  ASSERT_TRUE(status.ok()) << status.text();
  status = sum_on_all(world);
  ASSERT_TRUE(status.ok()) << status.text();
}

TEST_P(Opening, OfARankThatComesLateIsOfTheGroupThatOthersOpenNext) {
  Meeting meeting(GetParam().ranks);
  run([&](World& world) {
    for (int i = 0; i < 2; ++i)  // several are passed over as well
      if (world.rank() != world.size() - 1) {
        const ErrorDetail late =
            thrown_by([&] { (void)Collectives::open(world, Deadline::after(kShort)); });
        EXPECT_EQ(late.code, Code::timeout) << late.message;
      }
    meeting.wait();
    sum_after_failures(world);
  });
}

TEST_P(Opening, GoesOnWithARankThatTriesAgain) {
  Meeting meeting(2);
  run([&](World& world) {
    if (world.rank() == 0) {
      const ErrorDetail late =
          thrown_by([&] { (void)Collectives::open(world, Deadline::after(kShort)); });
      EXPECT_EQ(late.code, Code::timeout);
      EXPECT_TRUE(GetParam().ranks > 9 || late.peer == world.size() - 1) << late.message;
    }
    if (world.rank() == 0 || world.rank() == world.size() - 1) meeting.wait();
    sum_after_failures(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Collective, Opening,
                         testing::Values(Case{"shm", 2}, Case{"shm", 4}, Case{"tcp", 3},
                                         Case{"tcp", 12}),
                         [](const auto& info) {
                           return info.param.fabric + std::to_string(info.param.ranks);
                         });

}  // namespace
}  // namespace weft::tests
