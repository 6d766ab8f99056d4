// Waits for slots, readers and requests together: who ends them, and what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "tests/support/ranks.hpp"
#include "tests/threads/verbs/allocation_count.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSlot = 0;
constexpr std::size_t kRequest = 1;

SlotSpec named(const std::string& name) {
  return {.name = name, .dtype = DType::f32, .shape = {64}, .depth = 1};
}

/// Rank 0 awaits a slot that rank 1 puts into, and the put of its own that rank 1 has not let go.
struct Waiting {
  explicit Waiting(World& world, Meeting& meeting) : slot(world.expose(named("in"))) {
    remote = world.attach(1, named("out"));
    tensor = world.allocate(DType::f32, {64});
    remote.put(tensor).wait().or_throw();
    pending = remote.put(tensor);
    meeting.wait();
  }
  WaitSet set() const { return {.slots = slots, .requests = requests}; }

  Slot slot;
  RemoteSlot remote;
  Tensor tensor;
  Request pending;
  const std::array<Slot*, 1> slots{&slot};
  const std::array<Request*, 1> requests{&pending};
};

struct Awaited {
  Awaited(World& world, Meeting& meeting) : slot(world.expose(named("out"))) {
    remote = world.attach(0, named("in"));
    tensor = world.allocate(DType::f32, {64});
    meeting.wait();
  }
  void put() { remote.put(tensor).wait().or_throw(); }
  void release() { slot.wait().value().release(); }

  Slot slot;
  RemoteSlot remote;
  Tensor tensor;
};

void run_both(const std::function<void(World&, Waiting&, Meeting&)>& waiting,
              const std::function<void(World&, Awaited&, Meeting&)>& awaited,
              const char* fabric = "shm") {
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        Waiting own(world, meeting);
        waiting(world, own, meeting);
      },
      [&](World& world) {
        Awaited own(world, meeting);
        awaited(world, own, meeting);
      },
      settings().with(Setting::fabric, fabric));
}

TEST(WaitSets, GiveTheSlotThatIsReadyFirst) {
  run_both(
      [](World& world, Waiting& own, Meeting& meeting) {
        EXPECT_EQ(world.wait_any(own.set()).value(), kSlot);
        EXPECT_TRUE(own.slot.wait().ok());
        EXPECT_FALSE(own.pending.test());
        meeting.wait();
      },
      [](World&, Awaited& own, Meeting& meeting) {
        std::this_thread::sleep_for(milliseconds(20));
        own.put();
        meeting.wait();
      });
}

/// Messages and plans go on although every call returns at once, with the same handle if need be.
TEST(WaitSets, LetAllGoOnWhileOneIsReady) {
  run_on(2, [](World& world) {
    Messages messages(world);
    Collectives group = Collectives::open(world);
    const int other = 1 - world.rank();
    const Tensor out = world.allocate(DType::f32, {50'000});  // offered, and read by the receiver
    const Tensor in = world.allocate(DType::f32, {50'000});
    const Tensor sum = world.allocate(DType::f32, {8});
    std::ranges::fill(sum.as<float>(), 1.0F);
    Request ended;
    MessageRequest received = messages.irecv(other, 7, in);
    MessageRequest sent = messages.isend(other, 7, out);
    Plan plan = group.start(all_reduce(sum, Reduction::sum));
    const std::array<Request*, 1> requests{&ended};
    const std::array<Plan*, 1> plans{&plan};
    const std::array<MessageRequest*, 2> both{&received, &sent};
    const WaitSet set{.requests = requests, .plans = plans, .messages = both};
    std::array<bool, 4> seen{};
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (!std::ranges::all_of(seen, [](bool one) { return one; }) && !deadline.passed())
      seen[world.wait_any(set, deadline).value()] = true;
    EXPECT_EQ(seen, (std::array{true, true, true, true}));
    EXPECT_TRUE(plan.wait(Deadline::at({})).ok());
    EXPECT_TRUE(received.wait(Deadline::at({})).ok());
    EXPECT_TRUE(sent.wait(Deadline::at({})).ok());
    EXPECT_EQ(sum.as<float>()[7], 2.0F);
    group.run(barrier()).or_throw();
  });
}

TEST(WaitSets, GiveTheRequestThatEndsFirst) {
  run_both(
      [](World& world, Waiting& own, Meeting& meeting) {
        EXPECT_EQ(world.wait_any(own.set()).value(), kRequest);
        EXPECT_TRUE(own.pending.wait().ok());
        EXPECT_FALSE(own.slot.ready());
        meeting.wait();
      },
      [](World&, Awaited& own, Meeting& meeting) {
        std::this_thread::sleep_for(milliseconds(20));
        own.release();
        meeting.wait();
      });
}

TEST(WaitSets, GiveEachOfSeveralReadyHandlesItsTurn) {
  run_both(
      [](World& world, Waiting& own, Meeting& meeting) {
        meeting.wait();
        ASSERT_TRUE(soon([&] { return own.slot.ready() && own.pending.test(); }));
        std::array<int, 2> found{};
        for (int i = 0; i < 10; ++i) ++found.at(world.wait_any(own.set()).value());
        EXPECT_EQ(found, (std::array{5, 5}));
        meeting.wait();
      },
      [](World&, Awaited& own, Meeting& meeting) {
        own.put();
        own.release();
        meeting.wait();
        meeting.wait();
      });
}

TEST(WaitSets, EndAtTheirDeadlineAndTellEachHandle) {
  for (const char* fabric : {"shm", "tcp"})
    run_both(
        [](World& world, Waiting& own, Meeting& meeting) {
          const auto began = Clock::now();
          const Status late =
              world.wait_any(own.set(), Deadline::after(milliseconds(200))).status();
          const auto took = Clock::now() - began;
          EXPECT_GE(took, milliseconds(200));
          EXPECT_LT(took, milliseconds(2000));
          EXPECT_TRUE(tells(late, Code::timeout,
                            {"none of 2", "\"in\", tensor 1: nothing came from rank 1",
                             "\"out\", tensor 1: rank 1 ", "has not let go of an earlier tensor"}));
          EXPECT_EQ(late.detail().peer, 1);
          EXPECT_FALSE(own.pending.test()) << "it lives on";
          meeting.wait();
        },
        [](World&, Awaited&, Meeting& meeting) { meeting.wait(); }, fabric);
}

TEST(WaitSets, EndWhenTheirPeerLeaves) {
  for (const char* fabric : {"shm", "tcp"})
    run_both(
        [](World& world, Waiting& own, Meeting&) {
          for (int i = 0; i < 2; ++i) {
            const auto found = world.wait_any(own.set(), Deadline::after(std::chrono::seconds(5)));
            ASSERT_TRUE(found.ok()) << found.status().text();
            const Status why = *found == kSlot ? own.slot.wait().status() : own.pending.wait();
            EXPECT_TRUE(why.code() == Code::peer_left || why.code() == Code::closed) << why.text();
            EXPECT_EQ(why.detail().peer, 1);
          }
        },
        [](World&, Awaited&, Meeting&) { std::this_thread::sleep_for(milliseconds(20)); }, fabric);
}

TEST(WaitSets, EndWhenTheirPeerIsDead) {
  run_both(
      [](World& world, Waiting& own, Meeting& meeting) {
        std::thread judge([&] {
          std::this_thread::sleep_for(milliseconds(50));
          world.declare_dead(1, "as the test says");
        });
        const auto found = world.wait_any(own.set(), Deadline::after(std::chrono::seconds(5)));
        judge.join();
        ASSERT_TRUE(found.ok()) << found.status().text();
        const Status why = *found == kSlot ? own.slot.wait().status() : own.pending.wait();
        EXPECT_TRUE(tells(why, Code::peer_failed, {"rank 1", "as the test says"}));
        meeting.wait();
      },
      [](World&, Awaited&, Meeting& meeting) { meeting.wait(); }, "tcp");
}

TEST(WaitSets, AreRefusedIfEmpty) {
  run_on(1, [](World& world) {
    EXPECT_TRUE(tells(world.wait_any(WaitSet{}).status(), Code::bad_argument,
                      {"wait_any", "no slot, request, reader, plan or message"}));
    Slot slot = world.expose(named("alone"));
    const std::array<Slot*, 1> slots{&slot};
    EXPECT_TRUE(
        tells(world.wait_any(WaitSet{.slots = slots}, Deadline::after(milliseconds(5))).status(),
              Code::timeout, {"none of 1", "\"alone\""}));
  });
}

TEST(WaitSets, AreRefusedWithAnEmptyHandle) {
  run_on(1, [](World& world) {
    Slot slot = world.expose(named("alone"));
    Slot none;
    PublishedReader no_reader;
    const std::array<Slot*, 2> with_empty{&slot, &none};
    const std::array<Slot*, 2> with_null{&slot, nullptr};
    const std::array<PublishedReader*, 1> readers{&no_reader};
    const std::array<Request*, 1> requests{nullptr};
    const auto expect_refused = [&](const WaitSet& set, const char* text) {
      EXPECT_TRUE(tells(world.wait_any(set).status(), Code::bad_argument, {text}));
    };
    expect_refused({.slots = with_empty}, "slot 1 is empty");
    expect_refused({.slots = with_null}, "slot 1 is empty");
    expect_refused({.readers = readers}, "reader 0 is empty");
    expect_refused({.requests = requests}, "request 0 is empty");
    EXPECT_TRUE(tells(world.wait_any(with_empty).status(), Code::bad_argument, {"slot 1"}));
    EXPECT_TRUE(tells(world.wait_any(readers).status(), Code::bad_argument, {"reader 0"}));
    EXPECT_TRUE(tells(world.wait_any(requests).status(), Code::bad_argument, {"request 0"}));
    EXPECT_EQ(world.wait_any(std::span<Slot* const>()).code(), Code::bad_argument);
  });
}

TEST(WaitSets, AllocateNothing) {
  constexpr int kSteps = 200;
  run_both(
      [](World& world, Waiting& own, Meeting& meeting) {
        std::uint64_t warm = 0;
        for (int arrived = 0, ended = 0; arrived < kSteps || ended < kSteps;) {
          if (arrived + ended == kSteps) warm = allocations();
          if (world.wait_any(own.set()).value() == kSlot) {
            own.slot.wait().value().release();
            ++arrived;
          } else {
            own.pending.wait().or_throw();
            own.pending = own.remote.put(own.tensor);
            ++ended;
          }
        }
        EXPECT_GT(warm, 0U) << "joining allocates: they are counted";
        EXPECT_EQ(allocations() - warm, 0U);
        meeting.wait();
      },
      [](World&, Awaited& own, Meeting& meeting) {
        for (int n = 0; n < kSteps; ++n) {
          own.release();
          own.put();
        }
        meeting.wait();
      });
}

}  // namespace
}  // namespace weft::tests
