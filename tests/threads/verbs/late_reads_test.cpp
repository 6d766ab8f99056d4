// An RDMA read that does not end: the call that waits for the read returns, and its memory stays
// lent.
#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "tests/threads/verbs/nics.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kReadBytes = 1 << 20;
constexpr milliseconds kInTime{50};
constexpr milliseconds kReadGrace{100};
const PublishedSpec kPublished{
    .name = "published", .dtype = DType::u8, .shape = {kReadBytes}, .depth = 2};

/// The status of a call that must return within `kInTime`.
template <typename VerbsCall>
Status in_time(const VerbsCall& call) {
  const auto begun = Clock::now();
  const Status status = call(Deadline::after(kInTime));
  EXPECT_LE(Clock::now() - begun, kInTime + kReadGrace) << status.text();
  EXPECT_EQ(status.code(), Code::timeout) << status.text();
  return status;
}

void publish_pattern(PublishedSlot& slot, std::uint64_t pattern) {
  Tensor tensor = *slot.next();
  fill(tensor, pattern);
  slot.publish().or_throw();
}

TEST(ALateRead, EndsItsGetInTimeAndKeepsTheTensor) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(kPublished);
      publish_pattern(slot, 1);
      meeting.wait();
      return meeting.wait();
    }
    {
      PublishedReader remote = world.attach_published(0, kPublished);
      meeting.wait();
      EXPECT_TRUE(soon([&] { return remote.ready(); }));
      Tensor into = world.allocate(DType::u8, {kReadBytes});
      const std::byte* const was = into.data();
      job.network.hold(1);
      const Status late = in_time([&](Deadline d) { return remote.get(into, d); });
      EXPECT_TRUE(contains(late.text(), "rank 0")) << late.text();
      // Memory that the NIC may still write is not allocated again.
      into = Tensor();
      Tensor other = world.allocate(DType::u8, {kReadBytes});
      EXPECT_NE(other.data(), was);
      (void)in_time([&](Deadline d) { return remote.get(other, d); });
      (void)in_time([&](Deadline d) { return remote.view(d).status(); });
      job.network.hold(1, false);
      EXPECT_EQ(remote.get(other).text(), "ok");
      EXPECT_TRUE(holds(other, 1));
    }
    meeting.wait();
  });
}

TEST(ALateRead, OfRunsIsCutOffWithTheEndThatBeganIt) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(kPublished);
      publish_pattern(slot, 1);
      meeting.wait();
      return meeting.wait();
    }
    PublishedReader remote = world.attach_published(0, kPublished);
    meeting.wait();
    EXPECT_TRUE(soon([&] { return remote.ready(); }));
    const Tensor into = world.allocate(DType::u8, {kReadBytes});
    const std::array runs{SlotRun{0, kReadBytes, into.data()}};
    job.network.hold(1);
    (void)in_time([&](Deadline d) { return remote.get(runs, d); });
    remote = PublishedReader();  // its memory may go now, so the path has gone first
    const std::vector<int> who{0};
    EXPECT_TRUE(soon([&] { return !world.alive(who).ok(); }));
    job.network.hold(1, false);
    meeting.wait();
  });
}

TEST(ALateRead, HoldsUpNeitherTheMessageNorASlotThatHasNothingToDoWithIt) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    Messages messages(world);
    Tensor tensor = world.allocate(DType::u8, {kReadBytes});
    if (world.rank() == 0) {
      for (std::uint64_t n = 1; n <= 2; ++n) {
        fill(tensor, n);
        EXPECT_EQ(messages.send(1, 7, tensor).text(), "ok");
      }
      return meeting.wait();
    }
    Slot slot = world.expose({.name = "unrelated", .dtype = DType::u8, .shape = {8}});
    EXPECT_TRUE(messages.probe(0, 7).ok());
    job.network.hold(1);
    const Status late =
        in_time([&](Deadline d) { return messages.recv(0, 7, tensor, d).status(); });
    EXPECT_TRUE(contains(late.text(), "rank 0")) << late.text();
    (void)in_time([&](Deadline d) { return slot.wait(d).status(); });
    MessageRequest request = messages.irecv(0, 7, world.allocate(DType::u8, {kReadBytes}));
    const auto begun = Clock::now();
    EXPECT_FALSE(request.test());
    EXPECT_LE(Clock::now() - begun, kReadGrace);
    (void)in_time([&](Deadline d) { return request.wait(d).status(); });
    (void)in_time([&](Deadline d) { return slot.wait(d).status(); });
    job.network.hold(1, false);
    EXPECT_EQ(request.wait().status().text(), "ok");
    EXPECT_TRUE(messages.recv(0, 7, tensor).ok());  // nothing was taken twice, or lost
    EXPECT_TRUE(holds(tensor, 2));
    meeting.wait();
  });
}

TEST(ALateRead, OfADynamicTensorGoesOnInTheNextWait) {
  const SlotSpec spec{.name = "dynamic",
                      .dtype = DType::u8,
                      .shape = {kReadBytes},
                      .depth = 1,
                      .placement = Placement::dynamic};
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    if (world.rank() == 0) {
      {
        RemoteSlot remote = world.attach(1, spec);
        Tensor tensor = world.allocate(DType::u8, {kReadBytes});
        fill(tensor, 3);
        Request put = remote.put(tensor);
        EXPECT_EQ(put.wait().text(), "ok");
      }
      return meeting.wait();
    }
    Slot slot = world.expose(spec);
    EXPECT_TRUE(soon([&] { return slot.ready(); }));
    job.network.hold(1);
    const std::uint64_t before = job.posted(1);
    for (int i = 0; i < 3; ++i) {
      const Status late = in_time([&](Deadline d) { return slot.wait(d).status(); });
      EXPECT_TRUE(contains(late.text(), "rank 0")) << late.text();
    }
    EXPECT_LE(job.posted(1), before + 4);  // not read again each time
    job.network.hold(1, false);
    auto arrival = slot.wait();
    ASSERT_TRUE(arrival.ok()) << arrival.status().text();
    EXPECT_TRUE(holds(arrival->tensor(), 3));
    *arrival = Arrival();
    meeting.wait();
  });
}

}  // namespace
}  // namespace weft::tests
