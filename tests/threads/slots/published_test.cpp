// Readers of a published slot see whole versions, in order, the newest.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/ranks.hpp"
#include "tests/threads/slots/published.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class PublishedReaders : public testing::TestWithParam<int> {};

/// Readers may skip versions that they were too slow for, but each one seen is whole, none comes

/// twice, and the last one comes.

TEST_P(PublishedReaders, SeeWholeVersionsInOrderWithCredits) {
  constexpr std::uint64_t kVersions = 60;
  const int ranks = GetParam() + 1;
  const auto spec = published_model(2, Flow::credits);
  Meeting meeting(ranks);
  run_ranks(
      ranks,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          EXPECT_EQ(slot.readers(), ranks - 1);
          for (std::uint64_t version = 1; version <= kVersions; ++version) publish(slot, version);
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          for (std::uint64_t seen = 0; seen < kVersions;) {
            const auto view = remote.view().value();
            EXPECT_GT(view.sequence(), seen);
            seen = view.sequence();
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, seen))) << "version " << seen;
          }
          EXPECT_FALSE(remote.ready());
          meeting.wait();
        }
      },
      settings());
}

/// The loop itself keeps the ranks in step, so nothing is exchanged and nothing is skipped.

TEST_P(PublishedReaders, SeeEveryVersionOfASynchronousLoop) {
  constexpr std::uint64_t kVersions = 30;
  const int ranks = GetParam() + 1;
  const auto spec = published_model(1, Flow::unsafe_synchronous);
  Meeting meeting(ranks);
  run_ranks(
      ranks,
      [&](World& world) {
        PublishedSlot slot;
        PublishedReader remote;
        if (world.rank() == 0)
          slot = world.expose_published(spec);
        else
          remote = world.attach_published(0, spec);
        const auto into = world.allocate(spec.dtype, spec.shape);
        for (std::uint64_t version = 1; version <= kVersions; ++version) {
          meeting.wait();
          if (world.rank() == 0) {
            publish(slot, version);
          } else if (version % 2 == 0) {
            remote.get(into).or_throw();
            EXPECT_TRUE(holds(into, pattern_of(0, 0, version))) << "version " << version;
          } else {
            const auto view = remote.view().value();
            EXPECT_EQ(view.sequence(), version);
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, version))) << "version " << version;
          }
        }
        meeting.wait();
      },
      settings());
}

INSTANTIATE_TEST_SUITE_P(Slots, PublishedReaders, testing::Values(1, 2, 3),
                         testing::PrintToStringParamName());

TEST(Published, GetCopiesTheVersionIntoTheReadersTensor) {
  const auto spec = published_model(1, Flow::credits);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          ASSERT_TRUE(soon([&] { return slot.readers() == 1; }));
          for (std::uint64_t version = 1; version <= 10; ++version) publish(slot, version);
          ASSERT_TRUE(soon([&] { return slot.readers() == 0; }));
        } else {
          auto remote = world.attach_published(0, spec);
          const auto into = world.allocate(spec.dtype, spec.shape);
          fill(into, 0);
          const auto wrong = world.allocate(DType::f64, spec.shape);
          EXPECT_FALSE(remote.get(wrong).ok());
          while (!holds(into, pattern_of(0, 0, 10))) remote.get(into).or_throw();
          EXPECT_EQ(remote.get(into, Deadline::after(milliseconds(50))).code(), Code::timeout)
              << "there is no newer version";
        }
      },
      settings());
}

TEST(Published, ALateReaderSeesTheNewestVersion) {
  const auto spec = published_model(2, Flow::credits);
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          for (std::uint64_t version = 1; version <= 3; ++version) publish(slot, version);
          meeting.wait();
          meeting.wait();
        } else {
          meeting.wait();
          auto remote = world.attach_published(0, spec);
          {
            const auto view = remote.view().value();
            EXPECT_EQ(view.sequence(), 3U);
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 3)));
          }
          meeting.wait();
        }
      },
      settings());
}

TEST(Published, AVersionIsSeenAgainAsLongAsItsOwnerHasIt) {
  const auto spec = published_model(1, Flow::credits);
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          publish(slot, 1);
          meeting.wait();
          const auto buffer = slot.next().value();
          meeting.wait();
          meeting.wait();
          fill(buffer, pattern_of(0, 0, 2));
          slot.publish().or_throw();
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          remote.see_again();
          EXPECT_EQ(remote.view().value().sequence(), 1U);
          EXPECT_FALSE(remote.ready());
          remote.see_again();
          EXPECT_TRUE(remote.ready());
          {
            const auto view = remote.view().value();
            EXPECT_EQ(view.sequence(), 1U);
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 1)));
          }
          meeting.wait();
          meeting.wait();
          // The owner fills its buffer again.
          remote.see_again();
          EXPECT_FALSE(remote.ready());
          EXPECT_EQ(remote.view(Deadline::after(milliseconds(50))).status().code(), Code::timeout);
          meeting.wait();
          EXPECT_EQ(remote.view().value().sequence(), 2U);
          meeting.wait();
        }
      },
      settings());
}

/// Three buffers: one viewed all the time, two that the publisher goes on with.

TEST(Published, AViewStaysWholeWhilePublishingGoesOn) {
  constexpr std::uint64_t kVersions = 50;
  const auto spec = published_model(3, Flow::credits);
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          publish(slot, 1);
          meeting.wait();
          for (std::uint64_t version = 2; version <= kVersions; ++version) publish(slot, version);
          meeting.wait();
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          const auto into = world.allocate(spec.dtype, spec.shape);
          meeting.wait();
          auto first = remote.view().value();
          meeting.wait();
          do remote.get(into).or_throw();
          while (!holds(into, pattern_of(0, 0, kVersions)));
          EXPECT_EQ(first.sequence(), 1U);
          EXPECT_TRUE(holds(first.tensor(), pattern_of(0, 0, 1)));
          meeting.wait();
          first.release();
          meeting.wait();
        }
      },
      settings());
}

/// Both readers race the writer for the buffers; what they hold never changes under them.

TEST(Published, ReadersThatHoldViewsSeeWholeVersionsWhileTheWriterRacesThem) {
  constexpr std::uint64_t kVersions = 3000;
  auto spec = published_model(6, Flow::credits);
  spec.shape = {64};
  Meeting meeting(3);
  run_ranks(
      3,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          for (std::uint64_t version = 1; version <= kVersions; ++version) publish(slot, version);
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          Arrival held;
          for (std::uint64_t seen = 0; seen < kVersions;) {
            auto view = remote.view().value();
            EXPECT_GT(view.sequence(), seen);
            seen = view.sequence();
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, seen))) << "version " << seen;
            if (held) {
              EXPECT_TRUE(holds(held.tensor(), pattern_of(0, 0, held.sequence())));
            }
            if (seen % 3 != 0) held = std::move(view);
          }
          held.release();
          meeting.wait();
        }
      },
      settings());
}

TEST(Published, GetFillsASliceOfTheReadersTensor) {
  auto spec = published_model(1, Flow::credits);
  spec.dtype = DType::i32;
  spec.shape = {30, 10};
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          publish(slot, 1);
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          const auto wide = world.allocate(spec.dtype, {30, 16});
          std::ranges::fill(wide.as<std::int32_t>(), -1);
          remote.get(wide.slice(1, 3, 10)).or_throw();
          const auto dense = world.allocate(spec.dtype, spec.shape);
          fill(dense, pattern_of(0, 0, 1));
          for (std::size_t row = 0; row < 30; ++row)
            for (std::size_t column = 0; column < 16; ++column) {
              const bool within = column >= 3 && column < 13;
              const auto row_of_ten = dense.as<std::int32_t>().subspan(row * 10, 10);
              EXPECT_EQ(wide.as<std::int32_t>()[row * 16 + column],
                        within ? row_of_ten[column - 3] : -1);
            }
          meeting.wait();
        }
      },
      settings());
}

}  // namespace
}  // namespace weft::tests
