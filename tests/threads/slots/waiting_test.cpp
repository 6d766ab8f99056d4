// Waits for several handles at once, and loops that cannot go on without a third rank.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SlotSpec named(const std::string& name) {
  return {.name = name, .dtype = DType::f32, .shape = {64}, .depth = 1};
}

PublishedSpec published(const std::string& name) {
  return {.name = name, .dtype = DType::f32, .shape = {64}, .depth = 1};
}

TEST(WaitAny, GivesTheSlotThatHasAnArrival) {
  const std::array specs{named("a"), named("b"), named("c")};
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        std::array slots{world.expose(specs[0]), world.expose(specs[1]), world.expose(specs[2])};
        const std::array<Slot*, 3> any{&slots[0], &slots[1], &slots[2]};
        meeting.wait();
        EXPECT_EQ(world.wait_any(any, Deadline::after(milliseconds(50))).code(), Code::timeout);
        meeting.wait();
        for (const std::size_t expected : {1U, 2U, 0U, 2U}) {
          EXPECT_EQ(world.wait_any(any).value(), expected);
          EXPECT_TRUE(slots[expected].ready());
          EXPECT_TRUE(slots[expected].wait().ok());
          meeting.wait();
        }
      },
      [&](World& world) {
        meeting.wait();
        std::array remotes{world.attach(0, specs[0]), world.attach(0, specs[1]),
                           world.attach(0, specs[2])};
        const auto tensor = world.allocate(DType::f32, {64});
        meeting.wait();
        for (const std::size_t i : {1U, 2U, 0U, 2U}) {
          EXPECT_TRUE(remotes[i].put(tensor).wait().ok());
          meeting.wait();
        }
      });
}

TEST(WaitAny, GivesEverySlotItsTurnThoughAllAreAlwaysReady) {
  const std::array specs{named("a"), named("b"), named("c")};
  constexpr int kEach = 4;
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        std::array slots{world.expose(specs[0]), world.expose(specs[1]), world.expose(specs[2])};
        const std::array<Slot*, 3> any{&slots[0], &slots[1], &slots[2]};
        std::array<int, 3> arrivals{};
        for (int i = 0; i < 3 * kEach; ++i) {
          ASSERT_TRUE(
              soon([&] { return slots[0].ready() && slots[1].ready() && slots[2].ready(); }));
          const std::size_t found = world.wait_any(any).value();
          ++arrivals.at(found);
          EXPECT_TRUE(slots[found].wait().ok());
        }
        EXPECT_EQ(arrivals, (std::array{kEach, kEach, kEach}));
        meeting.wait();
      },
      [&](World& world) {
        std::array remotes{world.attach(0, specs[0]), world.attach(0, specs[1]),
                           world.attach(0, specs[2])};
        const auto tensor = world.allocate(DType::f32, {64});
        std::vector<Request> puts;
        for (int i = 0; i < kEach + 1; ++i)
          for (RemoteSlot& remote : remotes) puts.push_back(remote.put(tensor));
        meeting.wait();
      });
}

TEST(WaitAny, GivesTheReaderThatHasANewVersion) {
  const std::array specs{published("a"), published("b")};
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        std::array slots{world.expose_published(specs[0]), world.expose_published(specs[1])};
        meeting.wait();
        for (const std::size_t i : {1U, 0U}) {
          EXPECT_TRUE(slots[i].next().ok());
          EXPECT_TRUE(slots[i].publish().ok());
          meeting.wait();
        }
      },
      [&](World& world) {
        std::array remotes{world.attach_published(0, specs[0]),
                           world.attach_published(0, specs[1])};
        const std::array<PublishedReader*, 2> any{&remotes[0], &remotes[1]};
        EXPECT_EQ(world.wait_any(any, Deadline::after(milliseconds(50))).code(), Code::timeout);
        meeting.wait();
        for (const std::size_t expected : {1U, 0U}) {
          EXPECT_EQ(world.wait_any(any).value(), expected);
          EXPECT_TRUE(remotes[expected].ready());
          EXPECT_TRUE(remotes[expected].view().ok());
          meeting.wait();
        }
      });
}

TEST(WaitAny, GivesTheRequestThatHasEnded) {
  const std::array specs{named("a"), named("b")};
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        std::array slots{world.expose(specs[0]), world.expose(specs[1])};
        meeting.wait();
        for (const std::size_t i : {1U, 0U}) {
          EXPECT_TRUE(slots[i].wait().ok());
          meeting.wait();
        }
      },
      [&](World& world) {
        std::array remotes{world.attach(0, specs[0]), world.attach(0, specs[1])};
        const auto tensor = world.allocate(DType::f32, {64});
        for (auto& remote : remotes) EXPECT_TRUE(remote.put(tensor).wait().ok());
        std::array pending{remotes[0].put(tensor), remotes[1].put(tensor)};
        const std::array<Request*, 2> any{&pending[0], &pending[1]};
        EXPECT_EQ(world.wait_any(any, Deadline::after(milliseconds(50))).code(), Code::timeout);
        meeting.wait();
        EXPECT_EQ(world.wait_any(any).value(), 1U);
        meeting.wait();
        EXPECT_TRUE(pending[0].wait().ok());
        meeting.wait();
      });
}

/// The error of wait_any with a deadline in the past.
template <typename Handle, std::size_t kCount>
ErrorDetail late(World& world, std::array<Handle, kCount>& handles) {
  std::array<Handle*, kCount> any{};
  for (std::size_t i = 0; i < kCount; ++i) any[i] = &handles[i];
  const auto result = world.wait_any(any, Deadline::after(milliseconds(20)));
  EXPECT_EQ(result.code(), Code::timeout);
  return result.ok() ? ErrorDetail{} : result.status().detail();
}

TEST(WaitAny, TellsEachSlotAndItsPeerWhenItIsLate) {
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    if (world.rank() == 0) {
      std::array slots{world.expose(named("lonely")), world.expose(named("one")),
                       world.expose(named("two"))};
      meeting.wait();
      const ErrorDetail detail = late(world, slots);
      EXPECT_EQ(detail.peer, 1) << "the first that a rank has attached to";
      EXPECT_EQ(detail.slot, "one");
      EXPECT_EQ(detail.sequence_expected, 1U);
      for (const char* words : {"none of 3", "\"lonely\", tensor 1: no writer has attached",
                                "\"one\", tensor 1: nothing came from rank 1 (host ",
                                "\"two\", tensor 1: nothing came from rank 2 (host "})
        EXPECT_TRUE(contains(detail.text(), words)) << detail.text();
    } else {
      auto remote = world.attach(0, named(world.rank() == 1 ? "one" : "two"));
      meeting.wait();
      meeting.wait();
      return;
    }
    meeting.wait();
  });
}

TEST(WaitAny, TellsWhatEachOwnerHasNotPublishedOrLetGo) {
  Meeting meeting(2);
  const std::array specs{published("p"), published("q")};
  run_pair(
      [&](World& world) {
        std::array slots{world.expose_published(specs[0]), world.expose_published(specs[1])};
        Slot full = world.expose(named("full"));
        EXPECT_TRUE(slots[1].next().ok());
        EXPECT_TRUE(slots[1].publish().ok());
        meeting.wait();
        meeting.wait();
      },
      [&](World& world) {
        meeting.wait();
        std::array remotes{world.attach_published(0, specs[0]),
                           world.attach_published(0, specs[1])};
        EXPECT_TRUE(remotes[1].view().ok());
        ErrorDetail detail = late(world, remotes);
        EXPECT_EQ(detail.peer, 0);
        for (const char* words : {"\"p\", tensor 1: rank 0 (host ", "published nothing newer",
                                  "\"q\", tensor 2: rank 0 (host "})
          EXPECT_TRUE(contains(detail.text(), words)) << detail.text();
        RemoteSlot full = world.attach(0, named("full"));
        const auto tensor = world.allocate(DType::f32, {64});
        EXPECT_TRUE(full.put(tensor).wait().ok());
        std::array<Request, 6> puts;
        for (Request& put : puts) put = full.put(tensor);
        detail = late(world, puts);
        EXPECT_EQ(detail.peer, 0);
        for (const char* words :
             {"none of 6", "\"full\", tensor 1: rank 0 (host ",
              "has not let go of an earlier tensor", "; put into slot \"full\" with rank 0"})
          EXPECT_TRUE(contains(detail.text(), words)) << detail.text();
        meeting.wait();
      });
}

TEST(EventFd, BecomesReadableAfterAnArrival) {
  constexpr int kTensors = 20;
  Meeting meeting(2);
  run_owner_and_writer(
      named("a"),
      [&](World& world, Slot& slot) {
        pollfd event{.fd = world.event_fd(), .events = POLLIN, .revents = 0};
        ASSERT_GE(event.fd, 0);
        meeting.wait();
        for (int n = 0; n < kTensors; ++n) {
          world.clear_event();
          while (!slot.ready()) {
            ASSERT_EQ(poll(&event, 1, 10'000), 1) << "no event came with tensor " << n;
            world.clear_event();
          }
          EXPECT_TRUE(slot.wait().ok());
        }
        meeting.wait();
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(DType::f32, {64});
        meeting.wait();
        for (int n = 0; n < kTensors; ++n) {
          std::this_thread::sleep_for(milliseconds(5));  // the reader is in poll() by then
          remote.put(tensor).wait().or_throw();
        }
        meeting.wait();
      });
}

/// A slot of rank 0, to which rank 1 is attached; the others have neither end.
struct Edge {
  Slot slot;
  RemoteSlot remote;
};

Edge open_edge(World& world, Meeting& meeting) {
  Edge edge;
  if (world.rank() == 0) edge.slot = world.expose(named("a"));
  if (world.rank() == 1) edge.remote = world.attach(0, named("a"));
  meeting.wait();
  return edge;
}

TEST(AlsoNeeds, AReadersWaitEndsWhenAThirdRankLeaves) {
  Meeting meeting(3);
  std::atomic<bool> ended = false;
  run_on(3, [&](World& world) {
    auto [slot, remote] = open_edge(world, meeting);
    if (world.rank() == 2) return;
    if (world.rank() == 0) {
      const std::array needed{2};
      slot.also_needs(needed);
      const auto start = Deadline::Clock::now();
      const auto status = slot.wait().status();
      EXPECT_LT(Deadline::Clock::now() - start, seconds(3));
      EXPECT_TRUE(tells(status, Code::peer_left, {"rank 2"}));
      EXPECT_EQ(world.alive(needed).code(), Code::peer_left);
      EXPECT_TRUE(world.alive(std::array{0, 1}).ok());
      ended = true;
    } else {
      EXPECT_TRUE(soon([&] { return ended.load(); }));
    }
  });
}

TEST(AlsoNeeds, AWritersWaitEndsWhenAThirdRankLeaves) {
  Meeting meeting(3);
  std::atomic<bool> ended = false;
  run_on(3, [&](World& world) {
    auto [slot, remote] = open_edge(world, meeting);
    if (world.rank() == 0) {
      EXPECT_TRUE(soon([&] { return ended.load(); }));
    } else if (world.rank() == 1) {
      const auto tensor = world.allocate(DType::f32, {64});
      EXPECT_TRUE(remote.put(tensor).wait().ok());
      remote.also_needs(std::array{2});
      auto pending = remote.put(tensor);
      const auto status = pending.wait();
      EXPECT_TRUE(tells(status, Code::peer_left, {"rank 2"}));
      ended = true;
    }
  });
}

TEST(AlsoNeeds, WhoIsNeededUntilItLeavesEndsNoWaitByLeaving) {
  Meeting meeting(3);
  std::atomic<bool> has_left = false;
  run_on(3, [&](World& world) {
    auto [slot, remote] = open_edge(world, meeting);
    const std::array needed{2};
    if (world.rank() == 0) {
      slot.also_needs(needed, Needed::until_it_leaves);
      EXPECT_TRUE(soon([&] { return world.alive(needed).code() == Code::peer_left; }));
      EXPECT_EQ(slot.wait(Deadline::after({})).status().code(), Code::timeout);
      has_left = true;
      EXPECT_TRUE(slot.wait().ok());
    } else if (world.rank() == 1) {
      remote.also_needs(needed, Needed::until_it_leaves);
      EXPECT_TRUE(soon([&] { return has_left.load(); }));
      EXPECT_TRUE(remote.put(world.allocate(DType::f32, {64})).wait().ok());
    }
  });
}

TEST(Waiting, AWriterThatLeftIsNamed) {
  Meeting meeting(2);
  run_owner_and_writer(
      named("a"),
      [&](World&, Slot& slot) {
        meeting.wait();
        EXPECT_TRUE(slot.wait().ok()) << "what was put before it left is still there";
        const auto status = slot.wait().status();
        EXPECT_TRUE(tells(status, Code::peer_left, {"rank 1"}));
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(DType::f32, {64});
        EXPECT_TRUE(remote.put(tensor).wait().ok());
        meeting.wait();
      });
}

}  // namespace
}  // namespace weft::tests
