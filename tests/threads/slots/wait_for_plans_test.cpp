// Waits for plans and messages together with slots: who ends them, and what they cost.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <memory>
#include <thread>

#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// On rank 0 a plan that the other ranks have not started, and a message that rank 1 has not sent.
struct Awaiting {
  explicit Awaiting(World& world)
      : group(Collectives::open(world)),
        tensor(world.allocate(DType::f32, {1000})),
        plan(group.plan(all_reduce(tensor, Reduction::sum))),
        into(world.allocate(DType::f32, {1000})) {
    if (world.rank() != 0) return;
    plan.start().or_throw();
    message = Messages(world).irecv(1, 7, into);
  }
  WaitSet set() const { return {.plans = plans, .messages = messages}; }

  Collectives group;
  Tensor tensor;
  Plan plan;
  Tensor into;
  MessageRequest message;
  const std::array<Plan*, 1> plans{&plan};
  const std::array<MessageRequest*, 1> messages{&message};
};

constexpr std::size_t kPlan = 0;
constexpr std::size_t kMessage = 1;

void run_over(const char* fabric, int ranks, const std::function<void(World&)>& body) {
  run_on(ranks, settings().with(Setting::fabric, fabric), body);
}

milliseconds processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return milliseconds((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

TEST(WaitsForPlans, EndWithWhatComesFirst) {
  for (const char* fabric : {"shm", "tcp"}) {
    Meeting meeting(2);
    run_over(fabric, 2, [&](World& world) {
      Awaiting own(world);
      meeting.wait();
      if (world.rank() == 0) {
        EXPECT_EQ(world.wait_any(own.set()).value(), kMessage);
        EXPECT_EQ(own.message.wait().value().bytes, 4000U);
        meeting.wait();
        EXPECT_FALSE(own.plan.test());
        own.message = Messages(world).irecv(1, 8, own.into);
        meeting.wait();
        EXPECT_EQ(world.wait_any(own.set()).value(), kPlan);
        EXPECT_TRUE(own.plan.wait().ok());
      } else {
        std::this_thread::sleep_for(milliseconds(20));
        Messages(world).send(0, 7, own.tensor).or_throw();
        meeting.wait();
        meeting.wait();
        std::this_thread::sleep_for(milliseconds(20));
        own.plan.run().or_throw();
      }
      meeting.wait();
    });
  }
}

TEST(WaitsForPlans, TellAtTheirDeadlineForWhomTheyWaitAndSleepMeanwhile) {
  for (const char* fabric : {"shm", "tcp"}) {
    Meeting meeting(2);
    run_over(fabric, 2, [&](World& world) {
      Awaiting own(world);
      meeting.wait();
      if (world.rank() == 0) {
        const auto before = processor_time();
        const Status late = world.wait_any(own.set(), Deadline::after(milliseconds(600))).status();
        EXPECT_LT(processor_time() - before, milliseconds(300)) << "it sleeps";
        EXPECT_TRUE(tells(late, Code::timeout,
                          {"none of 2", "all_reduce(f32[1000], sum): call 1 of the group: rank 1",
                           "no message from rank 1", "tag 7"}));
        EXPECT_EQ(late.detail().peer, 1);
        meeting.wait();
        EXPECT_EQ(world.wait_any(own.set()).value(), kPlan) << "they live on";
      } else {
        meeting.wait();
        own.plan.run().or_throw();
      }
      meeting.wait();
    });
  }
}

TEST(WaitsForPlans, EndWhenARankThatTheyNeedIsGone) {
  for (const char* fabric : {"shm", "tcp"})
    for (const bool leaves : {true, false}) {
      Meeting meeting(3);
      Meeting others(2);
      run_over(fabric, 3, [&](World& world) {
        auto own = std::make_unique<Awaiting>(world);
        meeting.wait();
        if (world.rank() == 1 && leaves) return;  // leaves with its plan never started
        if (world.rank() == 0) {
          std::thread judge([&] {
            std::this_thread::sleep_for(milliseconds(50));
            if (!leaves) world.declare_dead(1, "as the test says");
          });
          const auto found = world.wait_any(own->set(), Deadline::after(seconds(10)));
          judge.join();
          ASSERT_TRUE(found.ok()) << fabric << ": " << found.status().text();
          const Status why = *found == kPlan ? own->plan.wait() : own->message.wait().status();
          EXPECT_NE(why.code(), Code::ok);
          EXPECT_EQ(why.detail().peer, 1) << why.text();
        }
        if (leaves)
          others.wait();
        else
          meeting.wait();
      });
    }
}

}  // namespace
}  // namespace weft::tests
