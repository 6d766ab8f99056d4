// A synchronous slot costs nothing for flow control; WEFT_CHECK=flow verifies the loop's promise.
#include <gtest/gtest.h>

#include "tests/pattern.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

template <typename Spec>
Spec synchronous(std::uint32_t depth) {
  return {.name = "step",
          .dtype = DType::i32,
          .shape = {400},
          .depth = depth,
          .flow = Flow::unsafe_synchronous};
}

Config checked() { return settings().with(Setting::check, "flow"); }
Config checked_by_tcp() { return checked().with(Setting::fabric, "tcp"); }

/// Both ranks agree on every step before the next, as a training loop does.
void keep_the_promise(const Config& config) {
  const auto spec = synchronous<SlotSpec>(1);
  constexpr std::uint64_t kSteps = 40;
  Meeting meeting(2);
  run_on(2, config, [&](World& world) {
    Slot slot;
    RemoteSlot remote;
    if (world.rank() == 0)
      slot = world.expose(spec);
    else
      remote = world.attach(0, spec);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= kSteps; ++n) {
      if (world.rank() == 0) {
        const auto arrival = slot.wait().value();
        EXPECT_EQ(arrival.sequence(), n);
        EXPECT_TRUE(holds(arrival.tensor(), pattern_of(1, 0, n))) << "step " << n;
      } else {
        fill(tensor, pattern_of(1, 0, n));
        remote.put(tensor).wait().or_throw();
      }
      meeting.wait();
    }
    if (config.text(Setting::check) == "none") {
      EXPECT_EQ(all_counters(world).credit_writes, 0U);
    }
    meeting.wait();
  });
}

TEST(Synchronous, ALoopThatKeepsItsPromiseWritesNoCredits) { keep_the_promise(settings()); }

TEST(Synchronous, ALoopThatKeepsItsPromisePassesTheCheck) { keep_the_promise(checked()); }

/// The ranks meet without weft, which is quicker than any credit.
TEST(Synchronous, APutThatComesBeforeTheCreditPassesTheCheckIfTheReleaseWasFirst) {
  keep_the_promise(checked_by_tcp());
}

void overtake_the_reader(const Config& config) {
  const auto spec = synchronous<SlotSpec>(2);
  Meeting meeting(2);
  run_owner_and_writer(
      spec,
      [&](World&, Slot& slot) {
        meeting.wait();
        for (std::uint64_t n = 1; n <= 2; ++n)
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)))
              << "an overrun destroys nothing";
      },
      [&](World& world, RemoteSlot& remote) {
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        for (std::uint64_t n = 1; n <= 2; ++n) {
          fill(tensor, pattern_of(1, 0, n));
          EXPECT_TRUE(remote.put(tensor).wait().ok());
        }
        const auto status = remote.put(tensor).wait(Deadline::after(milliseconds(500)));
        EXPECT_EQ(status.code(), Code::flow_overrun) << status.text();
        const std::vector<Tensor> parts = {tensor.part(0, {100}), tensor.part(100, {300})};
        EXPECT_EQ(remote.put(parts).wait(Deadline::after(milliseconds(500))).code(),
                  Code::flow_overrun)
            << "gathered or not";
        EXPECT_TRUE(contains(status.text(), "step")) << status.text();
        meeting.wait();
      },
      config);
}

TEST(Synchronous, TheCheckReportsAPutThatOvertakesTheReader) {
  overtake_the_reader(checked());
  overtake_the_reader(checked_by_tcp());
}

/// Readers without shared memory tell the owner nothing.
TEST(Synchronous, APublishersLoopThatKeepsItsPromisePassesTheCheck) {
  constexpr std::uint64_t kVersions = 20;
  const auto spec = synchronous<PublishedSpec>(1);
  for (const Config& config : {checked(), checked_by_tcp()}) {
    Meeting meeting(2);
    run_publisher_and_reader(
        spec,
        [&](World&, PublishedSlot& slot) {
          meeting.wait();
          for (std::uint64_t version = 1; version <= kVersions; ++version) {
            const auto buffer = slot.next();
            EXPECT_TRUE(buffer.ok()) << buffer.status().text();
            if (buffer.ok()) fill(*buffer, pattern_of(0, 0, version));
            if (buffer.ok()) slot.publish().or_throw();
            meeting.wait();
            meeting.wait();
          }
        },
        [&](World&, PublishedReader& remote) {
          meeting.wait();
          for (std::uint64_t version = 1; version <= kVersions; ++version) {
            meeting.wait();
            EXPECT_TRUE(holds(remote.view().value().tensor(), pattern_of(0, 0, version)));
            meeting.wait();
          }
        },
        config);
  }
}

TEST(Synchronous, TheCheckReportsAVersionThatOvertakesAReader) {
  const auto spec = synchronous<PublishedSpec>(1);
  Meeting meeting(2);
  run_publisher_and_reader(
      spec,
      [&](World&, PublishedSlot& slot) {
        meeting.wait();
        fill(slot.next().value(), pattern_of(0, 0, 1));
        slot.publish().or_throw();
        meeting.wait();
        const auto status = slot.next(Deadline::after(milliseconds(500))).status();
        EXPECT_TRUE(tells(status, Code::flow_overrun, {"rank 1"}));
        meeting.wait();
      },
      [&](World&, PublishedReader& remote) {
        meeting.wait();
        const auto view = remote.view().value();
        meeting.wait();
        meeting.wait();
        EXPECT_TRUE(holds(view.tensor(), pattern_of(0, 0, 1)));
      },
      checked());
}

}  // namespace
}  // namespace weft::tests
