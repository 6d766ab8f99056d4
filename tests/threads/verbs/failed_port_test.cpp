// A port that fails: one line, one count, and the path's report; the peer that can't answer, is
// gone, or tells nonsense.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/verbs/link_state.hpp"
#include "tests/support/soon.hpp"
#include "tests/threads/verbs/failover_job.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using p2p::verbs::LinkMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

SlotSpec large_slot() { return {.name = "in", .dtype = DType::u8, .shape = {kMiB}, .depth = 2}; }

/// The owner's part: takes tensors until the writer has said how many there are.
void take_all(World& world, const std::atomic<std::uint64_t>& count) {
  Slot slot = world.expose(large_slot());
  for (std::uint64_t n = 1; count == 0 || n <= count; ++n) {
    auto arrival = slot.wait(Deadline::after(seconds(20)));
    if (!arrival.ok() && n > count && count != 0) return;
    ASSERT_TRUE(arrival.ok()) << arrival.status().text();
    ASSERT_TRUE(holds(arrival->tensor(), pattern_of(1, 0, n))) << n;
  }
}

/// Rank 1 puts large tensors to rank 0, one after another.
class Writer {
 public:
  explicit Writer(World& world)
      : remote_(world.attach(0, large_slot())), tensor_(world.allocate(DType::u8, {kMiB})) {}
  Request begin() {
    fill(tensor_, pattern_of(1, 0, ++count_));
    return remote_.put(tensor_, Until::delivered);
  }
  Status put() { return begin().wait(); }
  std::uint64_t count() const { return count_; }

 private:
  RemoteSlot remote_;
  Tensor tensor_;
  std::uint64_t count_ = 0;
};

TEST(AFailedPort, StaysOutWithOneLineUntilItsLinkIsBack) {
  const TempFolder folder;
  FailoverJob job(2);
  std::atomic<std::uint64_t> count{0};
  job.run(
      [&](World& world) {
        if (world.rank() == 0) return take_all(world, count);
        Writer writer(world);
        const auto far_bytes = [&] { return job.network.counts(1, "fake1").bytes; };
        for (int i = 0; i < 5; ++i) writer.put().or_throw();
        EXPECT_GT(far_bytes(), static_cast<std::uint64_t>(2 * kMiB));
        job.network.set_nic_port(0, "fake1", false);
        EXPECT_TRUE(soon([&] { return job.have_lost(1); }, seconds(10)));
        const std::uint64_t before = far_bytes();
        for (int i = 0; i < 20; ++i) writer.put().or_throw();
        EXPECT_EQ(far_bytes(), before) << "all by the first";
        PathReport path = job.path(1);
        EXPECT_EQ(path.rails.at(0).own, "fake0:1");
        EXPECT_TRUE(path.rails.at(0).up);
        EXPECT_EQ(path.rails.at(1).own, "fake1:1");
        EXPECT_EQ(path.rails.at(1).peer, "fake1:1");
        EXPECT_FALSE(path.rails.at(1).up);
        // It is tried again meanwhile, which is told nobody.
        std::this_thread::sleep_for(seconds(1));
        EXPECT_EQ(job.path(1).rails_lost, 1U);
        EXPECT_EQ(job.path(1).rails_back, 0U);
        job.network.set_nic_port(0, "fake1", true);
        EXPECT_TRUE(soon([&] { return job.have_all_ports(); }, seconds(10)));
        for (int i = 0; i < 5; ++i) writer.put().or_throw();
        EXPECT_GT(far_bytes(), before + 2 * kMiB) << "its share is back";
        EXPECT_EQ(job.path(1).rails_back, 1U);
        count = writer.count() + 1;
        writer.put().or_throw();
      },
      verbs_settings()
          .with(Setting::log, "info:path")
          .with(Setting::log_file, (folder.path() / "%r").string()));
  for (const char* rank : {"0", "1"}) {
    std::ostringstream log;
    log << std::ifstream(folder.path() / rank).rdbuf();
    const std::string peer = rank[0] == '0' ? "1" : "0";
    const std::string lost =
        "rail 1 to rank " + peer + " (fake1:1 to fake1:1) is lost, its share goes by the others";
    const std::size_t first = log.str().find(lost);
    EXPECT_NE(first, std::string::npos) << log.str();
    EXPECT_EQ(log.str().find(lost, first + 1), std::string::npos) << log.str();
    EXPECT_TRUE(contains(log.str(), "rail 1 to rank " + peer + " is back")) << log.str();
  }
}

TEST(AFailedPort, HoldsUpPutsNoLongerThanTheirDeadlines) {
  FailoverJob job(2, {}, {.retry_wait = seconds(20)});
  std::atomic<std::uint64_t> count{0};
  job.run([&](World& world) {
    if (world.rank() == 0) return take_all(world, count);
    Writer writer(world);
    for (int i = 0; i < 3; ++i) writer.put().or_throw();
    // The peer can't say what has arrived there.
    job.network.hold(0, true);
    job.network.set_nic_port(1, "fake1", false);
    Request late = writer.begin();
    EXPECT_EQ(late.wait(Deadline::after(milliseconds(100))).code(), Code::timeout);
    job.network.hold(0, false);
    late.wait().or_throw();
    job.network.set_nic_port(1, "fake1", true);
    EXPECT_TRUE(soon([&] { return job.have_all_ports(); }, seconds(10)));
    count = writer.count() + 1;
    writer.put().or_throw();
  });
}

TEST(AFailedPort, IsNoneIfThePeerIsGone) {
  for (const bool cut_before : {false, true}) {
    FailoverJob job(3);
    job.run([&](World& world) {
      if (world.rank() == 0) {
        const Status status = take_until_the_end(world, large_slot());
        EXPECT_EQ(status.code(), Code::path_failed) << status.text();
        return;
      }
      Writer writer(world);
      for (int i = 0; i < 3; ++i) writer.put().or_throw();
      if (cut_before) job.network.set_nic_port(0, "fake2", false);
      job.network.isolate(0);
      Status status;
      for (int i = 0; i < 100 && status.ok(); ++i) status = writer.put();
      EXPECT_EQ(status.code(), Code::path_failed) << status.text();
    });
  }
}

TEST(AFailedPort, HasNoPacketThatComesLateIntoABufferOfItsReader) {
  constexpr milliseconds kLongest{60};
  FailoverJob job(2, {.faults = {.straggling = 1, .longest = kLongest}});
  constexpr std::uint64_t kTensors = 4;
  job.run([&](World& world) {
    if (world.rank() == 1) {
      Writer writer(world);
      for (std::uint64_t n = 1; n <= kTensors; ++n) {
        EXPECT_TRUE(soon([&] { return job.have_all_ports(); }, seconds(10)));
        job.network.isolate_nic(0, "fake1", true);
        writer.put().or_throw();
        job.network.isolate_nic(0, "fake1", false);
      }
      return;
    }
    Slot slot = world.expose(large_slot());
    for (std::uint64_t n = 1; n <= kTensors; ++n) {
      auto arrival = slot.wait();
      const Tensor tensor = arrival->tensor();
      EXPECT_TRUE(holds(tensor, pattern_of(1, 0, n))) << n;
      fill(tensor, pattern_of(0, 0, n));
      std::this_thread::sleep_for(kLongest);
      EXPECT_TRUE(holds(tensor, pattern_of(0, 0, n))) << n;
    }
  });
}

TEST(AFailedPort, EndsThePathIfThePeerTellsNonsenseOfIt) {
  const std::vector<std::function<void(LinkMessage&)>> lies{
      [](LinkMessage& message) { message.link = 9; },
      [](LinkMessage& message) { message.pair = 1; },
      [](LinkMessage& message) { ++message.generation; },
      [](LinkMessage& message) { message.type = static_cast<LinkMessage::Type>(77); },
      [](LinkMessage& message) { message.type = LinkMessage::Type::settled; },
      [](LinkMessage& message) { message.type = LinkMessage::Type::again; },
      [](LinkMessage& message) { message.handled[0] = 0; },
      [](LinkMessage& message) { message.handled[0] += 1000; },
  };
  for (const auto& lie : lies) {
    FailoverJob job(2);
    change_words(job.network, lie);
    job.run([&](World& world) {
      if (world.rank() == 0) {
        const Status status = take_until_the_end(world, large_slot());
        EXPECT_FALSE(status.ok());
        return;
      }
      Writer writer(world);
      for (int i = 0; i < 20; ++i) writer.put().or_throw();
      job.network.set_nic_port(1, "fake1", false);
      Status status;
      for (int i = 0; i < 1000 && status.ok(); ++i) status = writer.put();
      EXPECT_TRUE(tells(status, Code::system, {"has told nonsense about rail"}) ||
                  tells(status, Code::path_failed, {"has told nonsense about rail"}))
          << status.text();
    });
  }
}

}  // namespace
}  // namespace weft::tests
