// The owner of a published slot goes on whatever its readers do, or says which of them holds it up.
#include <gtest/gtest.h>

#include "tests/support/ranks.hpp"
#include "tests/threads/slots/published.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

TEST(Published, NobodyNeedsToRead) {
  const auto spec = published_model(2, Flow::credits);
  run_ranks(
      1,
      [&](World& world) {
        auto slot = world.expose_published(spec);
        EXPECT_EQ(slot.readers(), 0);
        for (std::uint64_t version = 1; version <= 10; ++version) publish(slot, version);
      },
      settings());
}

TEST(Published, TheWriterNamesTheReaderThatHoldsTheBuffer) {
  const auto spec = published_model(1, Flow::credits);
  Meeting meeting(3);
  run_ranks(
      3,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          publish(slot, 1);
          meeting.wait();
          const auto status = slot.next(Deadline::after(milliseconds(100))).status();
          EXPECT_EQ(status.code(), Code::timeout);
          EXPECT_EQ(status.detail().peer, 2);
          EXPECT_TRUE(contains(status.text(), "rank 2")) << status.text();
          EXPECT_TRUE(contains(status.text(), "model")) << status.text();
          meeting.wait();
          publish(slot, 2);
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          auto view = remote.view().value();
          if (world.rank() == 1) view.release();
          meeting.wait();
          meeting.wait();
          if (world.rank() == 2) {
            EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 1)));
          }
          view.release();
          EXPECT_EQ(remote.view().value().sequence(), 2U);
          meeting.wait();
        }
      },
      settings());
}

TEST(Published, AReaderThatWentAwayHoldsNothingUp) {
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
          for (std::uint64_t version = 2; version <= 6; ++version) publish(slot, version);
          EXPECT_TRUE(soon([&] { return slot.readers() == 0; }));
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          EXPECT_EQ(remote.view().value().sequence(), 1U);
          remote = PublishedReader();
          meeting.wait();
          meeting.wait();
        }
      },
      settings());
}

TEST(Published, AReaderThatDoesNotLookHoldsNothingUp) {
  const auto spec = published_model(2, Flow::credits);
  Meeting meeting(2);
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0) {
          auto slot = world.expose_published(spec);
          meeting.wait();
          for (std::uint64_t version = 1; version <= 20; ++version) publish(slot, version);
          meeting.wait();
          meeting.wait();
        } else {
          auto remote = world.attach_published(0, spec);
          meeting.wait();
          meeting.wait();
          const auto view = remote.view().value();
          EXPECT_EQ(view.sequence(), 20U);
          EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 20)));
          meeting.wait();
        }
      },
      settings());
}

TEST(Published, PublishNeedsABufferFromNext) {
  const auto spec = published_model(1, Flow::credits);
  run_ranks(
      1,
      [&](World& world) {
        auto model = world.expose_published(spec);
        EXPECT_EQ(model.publish().code(), Code::bad_argument);
      },
      settings());
}

TEST(Published, AttachingToTheOtherKindOfSlotIsAMismatch) {
  const auto spec = published_model(1, Flow::credits);
  const SlotSpec inbox{.name = "inbox", .dtype = spec.dtype, .shape = spec.shape};
  const SlotSpec as_inbox{.name = spec.name, .dtype = spec.dtype, .shape = spec.shape};
  PublishedSpec as_model = spec;
  as_model.name = inbox.name;
  run_ranks(
      1,
      [&](World& world) {
        auto model = world.expose_published(spec);
        auto slot = world.expose(inbox);
        const auto expect_mismatch = [](const ErrorDetail& refused) {
          EXPECT_EQ(refused.code, Code::mismatch) << refused.text();
          for (const char* words : {"written by a peer", "written by its owner",
                                    "f32[3000] depth 1", "expose_published"})
            EXPECT_TRUE(contains(refused.text(), words)) << words << ": " << refused.text();
        };
        const auto expect_told = [&] {
          EXPECT_EQ(slot.wait(Deadline::after(milliseconds(20))).code(), Code::mismatch)
              << "the owner learns of it";
        };
        expect_mismatch(thrown_by([&] { world.attach_published(0, as_model); }));
        expect_told();
        expect_mismatch(thrown_by([&] { world.attach_published(0, inbox.name); }));
        expect_told();
        expect_mismatch(thrown_by([&] { world.attach(0, as_inbox); }));
        expect_mismatch(thrown_by([&] { world.attach(0, spec.name); }));
        auto reader = world.attach_published(0, spec.name);
        auto writer = world.attach(0, inbox.name);
        EXPECT_EQ(reader.spec().shape, spec.shape);
        EXPECT_EQ(writer.spec().shape, inbox.shape);
        EXPECT_EQ(reader.owner(), 0);
      },
      settings());
}

}  // namespace
}  // namespace weft::tests
