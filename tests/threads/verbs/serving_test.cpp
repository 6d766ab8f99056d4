// A server whose RDMA read of a worker's gradients takes longer than WEFT_TIMEOUT.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/threads/verbs/nics.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {
namespace {

using pslib::Consistency;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ServingByVerbs : public testing::TestWithParam<Consistency> {};

TEST_P(ServingByVerbs, LastsThoughAWorkersHostDoesNotAnswerForLongerThanAnyWait) {
  NicJob job;
  job.run(2, verbs_settings().with(Setting::timeout, "1s").with(Setting::dead_after, "60s"),
          [&](World& world) {
            pslib::ParameterServer server(world, {.dedicated_servers = 1});
            pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
            options.consistency = GetParam();
            auto table = server.table("t", {{"t", Shape{4096}}}, options);
            if (server.works()) {
              table.initialize().or_throw();
              job.network.hold(1);
              table.push().or_throw();
              std::this_thread::sleep_for(milliseconds(2500));
              job.network.hold(1, false);
              table.pull(Deadline::after(seconds(20))).or_throw();
            } else {
              pslib::Table* const tables[] = {&table};
              const Status status = server.serve(tables);
              EXPECT_TRUE(status) << status.text();
              EXPECT_EQ(table.version(), 1U);
            }
            (void)world.leave(Deadline::after(seconds(20)));
          });
}

INSTANTIATE_TEST_SUITE_P(Consistencies, ServingByVerbs,
                         testing::Values(Consistency::bsp(), Consistency::async()),
                         [](const auto& info) {
                           return info.param.kind == Consistency::Kind::bsp ? "bsp" : "async";
                         });

}  // namespace
}  // namespace weft::tests
