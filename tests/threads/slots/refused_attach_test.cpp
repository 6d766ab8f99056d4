// Ends that don't fit together: both ranks get an error with both sides' values, and the world and
// the slot stay usable.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

const SlotSpec kOwners{.name = "edge", .dtype = DType::f32, .shape = {3, 7}, .depth = 11};

struct Difference {
  std::string what;
  SlotSpec writers;
  std::string owners_value;
  std::string writers_value;
};

void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.what; }

std::vector<Difference> differences() {
  SlotSpec dtype = kOwners;
  SlotSpec shape = kOwners;
  SlotSpec dims = kOwners;
  SlotSpec depth = kOwners;
  SlotSpec flow = kOwners;
  dtype.dtype = DType::i64;
  shape.shape = {7, 3};
  dims.shape = {21};
  depth.depth = 13;
  flow.flow = Flow::unsafe_synchronous;
  return {{"dtype", dtype, "f32", "i64"},
          {"shape", shape, "[3, 7]", "[7, 3]"},
          {"dims", dims, "[3, 7]", "[21]"},
          {"depth", depth, "11", "13"},
          {"flow", flow, "credits", "synchronous"}};
}

class AttachMismatch : public testing::TestWithParam<Difference> {
 protected:
  static void expect_both_values(const ErrorDetail& detail) {
    const auto text = detail.text();
    EXPECT_EQ(detail.code, Code::mismatch) << text;
    EXPECT_TRUE(contains(text, "edge")) << text;
    EXPECT_TRUE(contains(text, GetParam().owners_value)) << text;
    EXPECT_TRUE(contains(text, GetParam().writers_value)) << text;
  }
};

TEST_P(AttachMismatch, IsToldToBothSidesAndTheSlotStaysUsable) {
  run_pair(
      [](World& world) {
        auto slot = world.expose(kOwners);
        // The refusal and the tensor of the second attempt may arrive in either order.
        int arrivals = 0;
        int mismatches = 0;
        for (int i = 0; i < 2; ++i) {
          const auto result = slot.wait();
          if (result.ok()) {
            ++arrivals;
            EXPECT_EQ(result->sequence(), 1U);
            EXPECT_TRUE(holds(result->tensor(), pattern_of(1, 0, 1)));
          } else {
            ++mismatches;
            expect_both_values(result.status().detail());
            EXPECT_EQ(result.status().detail().peer, 1);
          }
        }
        EXPECT_EQ(arrivals, 1);
        EXPECT_EQ(mismatches, 1);
      },
      [](World& world) {
        const auto refused = thrown_by([&] { (void)world.attach(0, GetParam().writers); });
        expect_both_values(refused);
        EXPECT_EQ(refused.peer, 0);
        auto remote = world.attach(0, kOwners);
        const auto tensor = world.allocate(kOwners.dtype, kOwners.shape);
        fill(tensor, pattern_of(1, 0, 1));
        EXPECT_TRUE(remote.put(tensor).wait().ok());
      });
}

INSTANTIATE_TEST_SUITE_P(Slots, AttachMismatch, testing::ValuesIn(differences()),
                         [](const auto& difference) { return difference.param.what; });

TEST(Attach, AMismatchOfAnotherRankDoesNotDisturbTheWriter) {
  SlotSpec wrong = kOwners;
  wrong.dtype = DType::i8;
  Meeting meeting(3);
  run_on(3, [&](World& world) {
    if (world.rank() == 0) {
      auto slot = world.expose(kOwners);
      meeting.wait();
      meeting.wait();
      int arrivals = 0;
      int mismatches = 0;
      for (int i = 0; i < 3; ++i) {
        const auto result = slot.wait();
        arrivals += result.ok() ? 1 : 0;
        mismatches += result.code() == Code::mismatch ? 1 : 0;
      }
      EXPECT_EQ(arrivals, 2);
      EXPECT_EQ(mismatches, 1) << "reported once";
    } else if (world.rank() == 1) {
      auto remote = world.attach(0, kOwners);
      const auto tensor = world.allocate(kOwners.dtype, kOwners.shape);
      EXPECT_TRUE(remote.put(tensor).wait().ok());
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(remote.put(tensor).wait().ok());
    } else {
      meeting.wait();
      const auto refused = thrown_by([&] { (void)world.attach(0, wrong); });
      EXPECT_EQ(refused.code, Code::mismatch) << refused.text();
      meeting.wait();
    }
  });
}

TEST(Attach, ASecondWriterIsRefusedAndToldWhoHoldsTheSlot) {
  Meeting meeting(4);
  run_on(4, [&](World& world) {
    Slot slot;
    RemoteSlot remote;
    if (world.rank() == 0) slot = world.expose(kOwners);
    if (world.rank() == 2) remote = world.attach(0, kOwners);
    meeting.wait();
    if (world.rank() == 1 || world.rank() == 3) {
      const auto refused = thrown_by([&] { (void)world.attach(0, kOwners); });
      EXPECT_TRUE(tells(refused, Code::writer_taken, {"rank 2"}));
    }
    meeting.wait();
    const auto tensor = world.allocate(kOwners.dtype, kOwners.shape);
    if (world.rank() == 2) {
      EXPECT_TRUE(remote.put(tensor).wait().ok());
    }
    if (world.rank() == 0) {
      EXPECT_EQ(slot.wait().value().sequence(), 1U);
    }
    meeting.wait();
  });
}

TEST(Attach, ToANameThatNeverComesEndsInTimeAndNamesIt) {
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        meeting.wait();
        SlotSpec spec = kOwners;
        spec.name = "godot";
        auto slot = world.expose(spec);
        meeting.wait();
        EXPECT_TRUE(slot.wait().ok());
      },
      [&](World& world) {
        const auto start = Deadline::Clock::now();
        SlotSpec never = kOwners;
        never.name = "godot";
        const auto late =
            thrown_by([&] { (void)world.attach(0, never, Deadline::after(milliseconds(200))); });
        const auto took = Deadline::Clock::now() - start;
        EXPECT_EQ(late.code, Code::timeout);
        EXPECT_EQ(late.slot, "godot");
        EXPECT_EQ(late.peer, 0);
        EXPECT_TRUE(contains(late.text(), "godot")) << late.text();
        EXPECT_TRUE(contains(late.text(), "rank 0")) << late.text();
        EXPECT_GE(took, milliseconds(200));
        EXPECT_LT(took, milliseconds(1200));
        meeting.wait();
        meeting.wait();
        // The slot exists by now, and the attempt that was given up is not its writer.
        auto remote = world.attach(0, never);
        EXPECT_TRUE(remote.put(world.allocate(never.dtype, never.shape)).wait().ok());
      });
}

/// Attaches until the error text contains `words`, for at most 20 s.
std::string text_of_late_attach(World& world, const std::string& words) {
  const auto end = Deadline::Clock::now() + std::chrono::seconds(20);
  std::string text;
  while (!contains(text, words) && Deadline::Clock::now() < end) {
    const auto late =
        thrown_by([&] { (void)world.attach(0, kOwners, Deadline::after(milliseconds(100))); });
    EXPECT_EQ(late.code, Code::timeout);
    text = late.text();
  }
  return text;
}

TEST(Attach, ToASlotThatWasClosedSaysSoAndGetsItOnceItIsExposedAgain) {
  constexpr const char* kTooLate = "had exposed it, but closed it before it was asked";
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        { const Slot gone = world.expose(kOwners); }
        meeting.wait();
        meeting.wait();
        auto slot = world.expose(kOwners);
        EXPECT_TRUE(slot.wait().ok());
      },
      [&](World& world) {
        meeting.wait();
        const std::string text = text_of_late_attach(world, kTooLate);
        EXPECT_TRUE(contains(text, kTooLate)) << text;
        EXPECT_TRUE(contains(text, "rank 0")) << text;
        meeting.wait();
        auto remote = world.attach(0, kOwners);
        EXPECT_TRUE(remote.put(world.allocate(kOwners.dtype, kOwners.shape)).wait().ok());
      });
}

TEST(Attach, ToASlotThatWasClosedLongAgoFindsItUnknown) {
  constexpr int kManyMore = 64;
  constexpr const char* kUnknown = "has not exposed it";
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    if (world.rank() == 0) {
      SlotSpec spec = kOwners;
      { const Slot gone = world.expose(spec); }
      for (int i = 0; i < kManyMore; ++i) {
        spec.name = std::to_string(i);
        const Slot also_gone = world.expose(spec);
      }
    }
    meeting.wait();
    if (world.rank() == 1) {
      const std::string text = text_of_late_attach(world, kUnknown);
      EXPECT_TRUE(contains(text, kUnknown)) << text;
    }
    meeting.wait();
  });
}

TEST(Attach, TakesASpecInBracesAndANameOfAnyText) {
  Meeting meeting(2);
  run_pair(
      [&](World& world) {
        const Slot slot = world.expose({.name = "in", .shape = {4}, .depth = 3});
        const PublishedSlot published = world.expose_published({.name = "out", .shape = {2}});
        meeting.wait();
      },
      [&](World& world) {
        EXPECT_EQ(world.attach(0, {.name = "in", .shape = {4}, .depth = 3}).spec().depth, 3U);
        const auto refused =
            thrown_by([&] { (void)world.attach(0, {.name = "in", .shape = {5}}); });
        EXPECT_EQ(refused.code, Code::mismatch) << refused.text();
        EXPECT_EQ(world.attach_published(0, {.name = "out", .shape = {2}}).owner(), 0);
        // By name alone: what the owner declared.
        const std::string name = "in";
        EXPECT_EQ(world.attach(0, "in").spec().depth, 3U);
        EXPECT_EQ(world.attach(0, name).spec().depth, 3U);
        EXPECT_EQ(world.attach(0, std::string_view(name)).spec().depth, 3U);
        EXPECT_EQ(world.attach(0, name.c_str()).spec().depth, 3U);
        EXPECT_EQ(world.attach_published(0, "out").spec().shape, Shape{2});
        meeting.wait();
      });
}

TEST(Attach, ToARankOutOfRangeIsABadArgument) {
  run_on(2, [](World& world) {
    for (const int owner : {-1, 2, 1'000'000}) {
      const auto refused = thrown_by([&] { (void)world.attach(owner, kOwners); });
      EXPECT_TRUE(tells(refused, Code::bad_argument, {std::to_string(owner)}));
    }
    EXPECT_EQ(thrown_by([&] { (void)world.host(2); }).code, Code::bad_argument);
  });
}

TEST(Attach, ToARankThatLeftSaysSo) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    meeting.wait();
    if (world.rank() == 0) return;
    const auto refused = thrown_by([&] { (void)world.attach(0, kOwners); });
    EXPECT_TRUE(tells(refused, Code::peer_left, {"rank 0"}));
  });
}

}  // namespace
}  // namespace weft::tests
