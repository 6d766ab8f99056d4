// The first port fails, which carries all that goes in order: it was under way there.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/soon.hpp"
#include "tests/threads/verbs/failover_job.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kBytes = 100'000;

/// All that rank 1 begins while it lives is under way until lose(): then a port is lost with it.
class LostUnderWay {
 public:
  explicit LostUnderWay(FailoverJob& job, int nic = 0)
      : job_(job), losses_(job.path(1).rails_lost + 1) {
    job_.network.isolate_nic(0, FailoverJob::name(nic), true);
    job_.network.hold(1, true);
  }
  void lose() {
    job_.network.hold(1, false);
    EXPECT_TRUE(soon([&] { return job_.have_lost(losses_); }, seconds(10)));
  }

 private:
  FailoverJob& job_;
  const std::uint64_t losses_;
};

TEST(AFailedMainPort, HasItsReadsReadAgain) {
  const PublishedSpec spec{.name = "out", .dtype = DType::u8, .shape = {kBytes}, .depth = 2};
  FailoverJob job(2);
  job.run([&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(spec);
      const Tensor tensor = *slot.next();
      fill(tensor, pattern_of(0, 0, 1));
      slot.publish().or_throw();
      job.meeting.wait();
      return job.meeting.wait();
    }
    PublishedReader reader = world.attach_published(0, spec);
    job.meeting.wait();
    EXPECT_TRUE(soon([&] { return reader.ready(); }));
    const Tensor into = world.allocate(DType::u8, {kBytes});
    LostUnderWay lost(job);
    std::thread loser([&] {
      std::this_thread::sleep_for(milliseconds(20));
      lost.lose();
    });
    const Status status = reader.get(into);
    loser.join();
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_TRUE(holds(into, pattern_of(0, 0, 1)));
    EXPECT_GE(job.network.counts(1, "fake0").reads, 1U);
    EXPECT_GE(job.network.counts(1, "fake1").reads, 1U) << "by the other port";
    job.meeting.wait();
  });
}

TEST(AFailedMainPort, HasItsPutsOfEveryKindSentAgainOnce) {
  // With short messages a put is not posted to its end while nothing moves.
  for (const auto& [is_adopted, max_message] :
       {std::pair{false, 1U << 30U}, {true, 1U << 30U}, {false, 4096U}, {true, 4096U}}) {
    FailoverJob job(2, {.max_message = max_message});
    std::vector<std::byte> memory(4 * kBytes);
    const auto spec = [](const char* name, std::int64_t bytes) {
      return SlotSpec{.name = name, .dtype = DType::u8, .shape = {bytes}, .depth = 4};
    };
    job.run(
        [&](World& world) {
          if (world.rank() == 0) {
            Slot small = world.expose(spec("small", 40));
            Slot runs = world.expose(spec("runs", kBytes));
            job.meeting.wait();
            for (std::uint64_t n = 1; n <= 4; ++n) {
              EXPECT_TRUE(holds(small.wait().value().tensor(), pattern_of(1, 0, n))) << n;
              EXPECT_TRUE(holds(runs.wait().value().tensor(), pattern_of(1, 1, n))) << n;
            }
            EXPECT_FALSE(small.ready());
            EXPECT_FALSE(runs.ready());
            return job.meeting.wait();
          }
          RemoteSlot small = world.attach(0, spec("small", 40));
          RemoteSlot runs = world.attach(0, spec("runs", kBytes));
          {
            const Tensor tensor = is_adopted
                                      ? world.adopt(memory.data(), DType::u8, {4, kBytes}, [] {})
                                      : world.allocate(DType::u8, {4, kBytes});
            std::vector<Request> requests;
            job.meeting.wait();
            LostUnderWay lost(job);
            for (std::uint64_t n = 1; n <= 4; ++n) {
              const Tensor source = world.allocate(DType::u8, {40});
              fill(source, pattern_of(1, 0, n));
              requests.push_back(small.put(source, Until::delivered));
              // Two runs, the second of which lies first.
              const Tensor row = tensor.slice(0, static_cast<std::int64_t>(n) - 1, 1);
              const Tensor whole = world.allocate(DType::u8, {kBytes});
              fill(whole, pattern_of(1, 1, n));
              std::memcpy(row.data(), whole.data() + kBytes / 2, kBytes / 2);
              std::memcpy(row.data() + kBytes / 2, whole.data(), kBytes / 2);
              const std::vector<Tensor> parts{row.slice(1, kBytes / 2, kBytes / 2),
                                              row.slice(1, 0, kBytes / 2)};
              requests.push_back(runs.put(parts, Until::delivered));
            }
            for (Request& request : requests)
              EXPECT_EQ(request.wait(Deadline::after(milliseconds(5))).code(), Code::timeout);
            lost.lose();
            for (Request& request : requests) {
              const Status status = request.wait();
              EXPECT_TRUE(status.ok()) << status.text();
            }
          }
          job.meeting.wait();
        },
        verbs_settings().with(Setting::queue_depth, max_message > kBytes ? "128" : "16"));
  }
}

TEST(AFailedMainPort, KeepsSourcesUntilWhatReplacesThemHasGone) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {kBytes}, .depth = 2};
  FailoverJob job(2);
  job.run([&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      job.meeting.wait();
      EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 1)));
      return job.meeting.wait();
    }
    RemoteSlot remote = world.attach(0, spec);
    const Tensor tensor = world.allocate(DType::u8, {kBytes});
    fill(tensor, pattern_of(1, 0, 1));
    job.meeting.wait();
    LostUnderWay lost(job);
    Request request = remote.put(tensor);
    job.network.set_faults(1, {.delayed = 1, .longest = milliseconds(100)});
    lost.lose();
    request.wait().or_throw();
    fill(tensor, pattern_of(1, 0, 2));
    job.meeting.wait();
  });
}

/// Their NIC has acknowledged the tensors, so their puts have ended, and their memory has another
/// use.
TEST(AFailedMainPort, ReadsNoMemoryAgainOfPutsThatHaveEnded) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {kBytes}, .depth = 4};
  FailoverJob job(2);
  // As if the peer's queue pair had flushed the last two notifications.
  change_words(job.network, [](p2p::verbs::LinkMessage& message) {
    if (message.type == p2p::verbs::LinkMessage::Type::down) message.ordered[0] -= 2;
  });
  job.run([&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      job.meeting.wait();
      for (int i = 0; i < 4; ++i) (void)slot.wait();
      job.meeting.wait();
      return job.meeting.wait();
    }
    RemoteSlot remote = world.attach(0, spec);
    const Tensor tensor = world.allocate(DType::u8, {kBytes});
    job.meeting.wait();
    for (int i = 0; i < 4; ++i) remote.put(tensor, Until::delivered).wait().or_throw();
    job.meeting.wait();
    job.network.set_nic_port(0, "fake0", false);
    const auto other = [&] { return job.network.counts(1, "fake1"); };
    EXPECT_TRUE(soon([&] { return other().writes_with_immediate >= 2; }, seconds(10)))
        << "the notifications go again";
    EXPECT_LT(other().bytes, static_cast<std::uint64_t>(kBytes)) << "no tensor does";
    job.meeting.wait();
  });
}

TEST(AFailedMainPort, SpeaksForThoseLostBefore) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {6 * kMiB}, .depth = 4};
  FailoverJob job(3);
  job.run([&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      job.meeting.wait();
      for (std::uint64_t n = 1; n <= 3; ++n) {
        auto arrival = slot.wait(Deadline::after(seconds(20)));
        ASSERT_TRUE(arrival.ok()) << arrival.status().text();
        EXPECT_TRUE(holds(arrival->tensor(), pattern_of(1, 0, n))) << n;
      }
      return job.meeting.wait();
    }
    RemoteSlot remote = world.attach(0, spec);
    const Tensor tensor = world.allocate(spec.dtype, spec.shape);
    const auto begin = [&](std::uint64_t n) {
      fill(tensor, pattern_of(1, 0, n));
      return remote.put(tensor, Until::delivered);
    };
    job.meeting.wait();
    begin(1).wait().or_throw();
    job.network.set_nic_port(0, "fake0", false);
    EXPECT_TRUE(soon([&] { return job.have_lost(1); }, seconds(10)));
    begin(2).wait().or_throw();
    fill(tensor,
         pattern_of(1, 0, 3));  // takes long under a sanitizer: before the port falls silent
    // Shares by two ports, the first of which speaks for the lost one, and is lost, too.
    LostUnderWay lost(job, 1);
    const auto shares = [&](const char* nic) {
      return job.network.counts(1, nic).writes_with_immediate;
    };
    const std::uint64_t before = shares("fake1");
    const std::uint64_t others = shares("fake2");
    Request request = remote.put(tensor, Until::delivered);
    EXPECT_EQ(shares("fake1"), before + 1);
    EXPECT_EQ(shares("fake2"), others + 1);
    lost.lose();
    request.wait(Deadline::after(seconds(20))).or_throw();
    job.meeting.wait();
  });
}

/// A link that has come back takes small puts before the peer has said that it is ready for shares,
/// too. Without another link a large tensor waits for that.
TEST(AFailedMainPort, LeavesSharesToALinkOnlyOnceThePeerIsReady) {
  const auto spec = [](const char* name, std::int64_t bytes) {
    return SlotSpec{.name = name, .dtype = DType::u8, .shape = {bytes}, .depth = 4};
  };
  FailoverJob job(2);
  // Rank 1 never hears that rank 0 is ready for link 0 again, nor that it uses it: it hears once
  // more that the link was lost before.
  change_words(job.network, [](p2p::verbs::LinkMessage& message) {
    using Type = p2p::verbs::LinkMessage::Type;
    if (message.link != 0 || (message.type != Type::ready && message.type != Type::resumed)) return;
    message.type = Type::down;
    message.generation -= 1;
  });
  job.run([&](World& world) {
    if (world.rank() == 0) {
      Slot small = world.expose(spec("small", 40));
      Slot large = world.expose(spec("large", 6 * kMiB));
      job.meeting.wait();
      EXPECT_TRUE(holds(small.wait().value().tensor(), pattern_of(1, 0, 1)));
      job.meeting.wait();
      EXPECT_FALSE(large.ready());
      return job.meeting.wait();
    }
    RemoteSlot small = world.attach(0, spec("small", 40));
    RemoteSlot large = world.attach(0, spec("large", 6 * kMiB));
    const Tensor tensor = world.allocate(DType::u8, {6 * kMiB});
    const Tensor source = world.allocate(DType::u8, {40});
    fill(source, pattern_of(1, 0, 1));
    job.meeting.wait();
    job.network.set_nic_port(0, "fake0", false);
    EXPECT_TRUE(soon([&] { return job.have_lost(1); }, seconds(10)));
    job.network.set_nic_port(0, "fake0", true);
    EXPECT_TRUE(soon([&] { return job.path(0).rails_back == 1; }, seconds(10)));
    EXPECT_EQ(job.path(1).rails_back, 0U);
    job.network.set_nic_port(0, "fake1", false);
    EXPECT_TRUE(soon([&] { return job.have_lost(2); }, seconds(10)));
    small.put(source, Until::delivered).wait().or_throw();
    Request put = large.put(tensor, Until::delivered);
    EXPECT_EQ(put.wait(Deadline::after(milliseconds(500))).code(), Code::timeout);
    job.meeting.wait();
    EXPECT_EQ(put.cancel().code(), Code::cancelled);
    job.meeting.wait();
  });
}

/// Puts into rank 0's slot until a put fails, and calls `after` with the number of each. Returns
/// how the last one ended.
Status put_until_the_end(World& world, const SlotSpec& spec,
                         const std::function<void(std::uint64_t)>& after) {
  RemoteSlot remote = world.attach(0, spec);
  const Tensor tensor = world.allocate(DType::u8, {kBytes});
  Status status;
  for (std::uint64_t n = 1; n < 100'000 && status.ok(); ++n) {
    fill(tensor, pattern_of(1, 0, n));
    status = remote.put(tensor).wait();
    after(n);
  }
  return status;
}

TEST(AFailedMainPort, EndsThePathIfItIsTheLast) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {kBytes}, .depth = 2};
  FailoverJob job(2);
  job.run([&](World& world) {
    if (world.rank() == 0) {
      EXPECT_EQ(take_until_the_end(world, spec).code(), Code::path_failed);
      return;
    }
    const Status status = put_until_the_end(world, spec, [&](std::uint64_t n) {
      if (n == 10) job.network.isolate_nic(0, "fake0", true);
      if (n > 10 && job.have_lost(1)) job.network.isolate_nic(0, "fake1", true);
    });
    EXPECT_EQ(status.code(), Code::path_failed) << status.text();
  });
}

TEST(AFailedMainPort, EndsThePathWhereTailWordsWereAskedFor) {
  const SlotSpec spec{.name = "in", .dtype = DType::u8, .shape = {kBytes}, .depth = 2};
  FailoverJob job(2, {.data_in_order = true});
  job.run(
      [&](World& world) {
        if (world.rank() == 0) {
          EXPECT_EQ(take_until_the_end(world, spec).code(), Code::path_failed);
          return;
        }
        const Status status = put_until_the_end(world, spec, [&](std::uint64_t n) {
          if (n == 10) job.network.isolate_nic(0, "fake0", true);
        });
        EXPECT_EQ(status.code(), Code::path_failed) << status.text();
      },
      verbs_settings().with(Setting::notify, "tail"));
}

}  // namespace
}  // namespace weft::tests
