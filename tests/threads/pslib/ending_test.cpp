// Steps that can't end: the error names the late or lost rank, and ranks that don't need it go on.
#include <gtest/gtest.h>

#include "tests/threads/pslib/training.hpp"

namespace weft::tests {
namespace {

using pslib::Optimizer;
using std::chrono::milliseconds;

TEST(LateWorker, IsNamedByATimeoutAndTheStepCanStillEnd) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
    table.initialize().or_throw();
    std::ranges::fill(table.gradient("bias").as<float>(), 1.0F);
    if (world.rank() != 1) {
      const Status status = table.push_pull(Deadline::after(milliseconds(50)));
      EXPECT_EQ(status.code(), Code::timeout) << status.text();
      EXPECT_EQ(status.detail().peer, 1) << status.text();
    }
    meeting.wait();
    if (world.rank() == 1) table.push().or_throw();
    table.pull().or_throw();
    for (const float p : table.parameter("bias").as<float>()) EXPECT_FLOAT_EQ(p, -1.0F);
    table.push_pull().or_throw();
    EXPECT_EQ(table.version(), 2U);
    world.leave().or_throw();
  });
}

TEST(LostRank, EndsEveryWorkersStepAndIsNamed) {
  Meeting meeting(4);
  Meeting survivors(3);
  run_on(4, [&](World& world) {
    {
      pslib::ParameterServer server(world);
      auto table = server.table("model", Regression::specs(), Optimizer::sgd(1.0F));
      table.initialize().or_throw();
      table.push_pull().or_throw();
      meeting.wait();
      if (world.rank() != 2) {
        const auto start = std::chrono::steady_clock::now();
        const Status status = table.push_pull();
        EXPECT_TRUE(status.code() == Code::peer_left || status.code() == Code::closed)
            << status.text();
        if (!status.ok()) {
          EXPECT_EQ(status.detail().peer, 2) << status.text();
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
        survivors.wait();  // else the first rank to end would be the others' reason
      }
    }
    if (world.rank() != 2) (void)world.leave();
  });
}

TEST(MissingRank, IsNamedWhenATableNeverComesAbout) {
  run_on(2, [&](World& world) {
    if (world.rank() == 1) {
      (void)world.leave();
      return;
    }
    pslib::ParameterServer server(world);
    const auto detail = thrown_by([&] {
      (void)server.table("model", Regression::specs(), Optimizer::sgd(1.0F),
                         Deadline::after(milliseconds(50)));
    });
    EXPECT_TRUE(detail.code == Code::timeout || detail.code == Code::peer_left) << detail.text();
    EXPECT_EQ(detail.peer, 1) << detail.text();
  });
}

}  // namespace
}  // namespace weft::tests
