// Trouble with a device under a running job: the link goes down, the device dies or refuses to
// register memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

SlotSpec spec_of(std::int64_t elements, const std::string& name = "in") {
  return {.name = name, .dtype = DType::f32, .shape = {elements}, .depth = 2};
}

/// Rank 1 puts `tensor` into the slot of rank 0 with this spec.
Status put_once(World& world, const SlotSpec& spec, const Tensor& tensor) {
  auto remote = world.attach(0, spec);
  return remote.put(tensor, Until::delivered).wait();
}

TEST(ALink, ThatGoesDownAndComesBackLosesNothing) {
  NicJob job({.retry_wait = std::chrono::seconds(20)});
  constexpr std::uint64_t kTensors = 60;
  job.run(2, [&](World& world) {
    const SlotSpec spec = spec_of(3000);
    if (world.rank() == 0) {
      auto slot = world.expose(spec);
      for (std::uint64_t n = 1; n <= kTensors; ++n)
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
      return;
    }
    auto remote = world.attach(0, spec);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= kTensors; ++n) {
      fill(tensor, pattern_of(1, 0, n));
      const bool cut = n % 20 == 10;
      if (cut) job.network.set_port(static_cast<int>(n / 20) % 2, false);
      auto request = remote.put(tensor, Until::delivered);
      if (cut) {
        EXPECT_EQ(request.wait(Deadline::after(milliseconds(30))).code(), Code::timeout);
        job.network.set_port(static_cast<int>(n / 20) % 2, true);
      }
      request.wait().or_throw();
    }
  });
}

/// Rank 2 receives from ranks 0 and 1; `trouble` happens to rank 0's device.
void expect_rank_0_alone_is_lost(const std::function<void(NicJob&)>& trouble) {
  NicJob job;
  Meeting meeting(3);
  job.run(3, [&](World& world) {
    const int rank = world.rank();
    std::vector<Slot> slots;
    RemoteSlot remote;
    const auto tensor = world.allocate(DType::f32, {100});
    if (rank == 2) {
      slots.push_back(world.expose(spec_of(100, "from 0")));
      slots.push_back(world.expose(spec_of(100, "from 1")));
    } else {
      remote = world.attach(2, spec_of(100, "from " + std::to_string(rank)));
      remote.put(tensor).wait().or_throw();
    }
    for (Slot& slot : slots) EXPECT_TRUE(slot.wait().ok());
    meeting.wait();
    if (rank == 0) trouble(job);
    meeting.wait();
    if (rank == 0) {
      const auto within_seconds = [](const std::function<Status()>& call) {
        Status status;
        for (int i = 0; i < 2000 && status.ok(); ++i) {
          status = call();
          std::this_thread::sleep_for(milliseconds(1));
        }
        return status;
      };
      const Status put = within_seconds([&] { return remote.put(tensor).wait(); });
      EXPECT_EQ(put.code(), Code::path_failed) << put.text();
      const Status other = within_seconds([&] { return world.alive(std::vector{1}); });
      EXPECT_EQ(other.code(), Code::path_failed) << "every path of it";
    } else if (rank == 1) {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(remote.put(tensor).wait().ok());
    } else {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(slots[1].wait().ok());
      Status status;
      while (status.ok()) status = slots[0].wait().status();
      EXPECT_NE(status.code(), Code::timeout) << status.text();
    }
    meeting.wait();
  });
}

TEST(ADevice, ThatDiesLosesItsOwnPathsAlone) {
  expect_rank_0_alone_is_lost([](NicJob& job) { job.network.fail(0); });
}

TEST(ADevice, ThatSaysItIsDeadIsBelieved) {
  // A real device may report the fatal event and complete no work request afterwards.
  expect_rank_0_alone_is_lost([](NicJob& job) {
    job.network.hold(0);
    job.network.announce(0, IBV_EVENT_DEVICE_FATAL);
  });
}

/// Makes the next registration on the rank's device fail, and all later ones too.
void refuse_registrations(NicJob& job, int rank) {
  FaultPlan plan;
  const std::uint64_t first = job.network.counts(rank).of(VerbsCall::reg_mr) + 1;
  for (std::uint64_t n = 0; n < 200; ++n)
    plan.refusals.push_back({.call = VerbsCall::reg_mr, .nth = first + n, .error = ENOMEM});
  job.network.set_faults(rank, plan);
}

/// Requires that the error names the call, the bytes and the device.
void expect_says_why(const std::string& text) {
  EXPECT_TRUE(contains(text, "ibv_reg_mr")) << text;
  EXPECT_TRUE(contains(text, "bytes with fake0:1")) << text;
}

TEST(MemoryThatIsNotRegistered, EndsTheJoinOrTheAttach) {
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE("registration " + std::to_string(nth));
    NicJob job({}, {.faults = {.refusals = {{.call = VerbsCall::reg_mr, .nth = nth}}}});
    const auto begun = Clock::now();
    const ErrorDetail detail = thrown_by([&] {
      job.run(2, verbs_settings().with(Setting::init_timeout, "10s").with(Setting::timeout, "5s"),
              [](World& world) {
                // Make both ranks register the memory that weft registers on first use.
                const auto spec = spec_of(3000);
                auto slot = world.expose(spec);
                auto remote = world.attach(1 - world.rank(), spec);
                remote.put(world.allocate(spec.dtype, spec.shape)).wait().or_throw();
                static_cast<void>(slot.wait().value());
              });
    });
    if (detail.code == Code::ok) {
      EXPECT_GT(nth, 2U) << "control and data memory at least";
      break;
    }
    EXPECT_NE(detail.code, Code::timeout) << detail.text();
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
    if (nth == 1) expect_says_why(detail.text());
    job.expect_clean();
  }
}

TEST(MemoryThatIsNotRegistered, FailsThePutThatNeedsItAndNoOther) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    const SlotSpec spec = spec_of(3000);
    Slot slot;
    if (world.rank() == 0) {
      slot = world.expose(spec);
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(slot.wait().ok());
      meeting.wait();
      return;
    }
    auto remote = world.attach(0, spec);
    const auto known = world.allocate(spec.dtype, spec.shape);
    remote.put(known).wait().or_throw();
    const auto grown = world.allocate(DType::f32, {8 << 20});  // a chunk of its own
    std::vector<float> memory(3000);
    const auto adopted = world.adopt(memory.data(), DType::f32, spec.shape, [] {});
    refuse_registrations(job, 1);
    for (const Tensor& tensor : {grown.part(0, spec.shape), adopted}) {
      const Status status = remote.put(tensor).wait(Deadline::after(std::chrono::seconds(5)));
      EXPECT_NE(status.code(), Code::ok);
      EXPECT_NE(status.code(), Code::timeout) << status.text();
      expect_says_why(status.text());
    }
    EXPECT_TRUE(remote.put(known).wait().ok());
    meeting.wait();
  });
}

TEST(MemoryThatIsNotRegistered, RefusesTheAttachToIt) {
  NicJob job;
  Meeting meeting(2);
  job.run(2, [&](World& world) {
    const SlotSpec small = spec_of(3000, "small");
    const SlotSpec large = spec_of(4 << 20, "large");  // in a chunk of its own
    std::vector<Slot> slots;
    if (world.rank() == 0) {
      slots.push_back(world.expose(small));
      meeting.wait();
      refuse_registrations(job, 0);
      slots.push_back(world.expose(large));
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(slots[0].wait().ok());
      meeting.wait();
      return;
    }
    auto remote = world.attach(0, small);
    const auto tensor = world.allocate(small.dtype, small.shape);
    meeting.wait();
    meeting.wait();
    const auto begun = Clock::now();
    const auto detail =
        thrown_by([&] { world.attach(0, large, Deadline::after(std::chrono::seconds(10))); });
    EXPECT_NE(detail.code, Code::ok);
    EXPECT_NE(detail.code, Code::timeout) << detail.text();
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
    meeting.wait();
    const Status status = remote.put(tensor).wait();
    EXPECT_TRUE(status.ok()) << status.text();
    meeting.wait();
  });
}

TEST(AdoptedMemory, AtAnAddressThatWasUsedBeforeHasItsOwnKey) {
  NicJob job;
  constexpr int kTimes = 5;
  Meeting meeting(2);
  // Both ends use the same addresses again and again for memory of different sizes.
  job.run(2, [&](World& world) {
    std::vector<float> memory(100'000);
    for (int i = 0; i < kTimes; ++i) {
      const SlotSpec spec = spec_of(5000 * (i + 1), "slot " + std::to_string(i));
      const std::uint64_t before = job.network.counts(world.rank()).of(VerbsCall::reg_mr);
      std::atomic<int> given_back{0};
      {
        const std::int64_t buffers = world.rank() == 0 ? spec.depth : 1;
        const auto tensor = world.adopt(memory.data(), DType::f32,
                                        {buffers * spec.shape.elements()}, [&] { ++given_back; });
        if (world.rank() == 0) {
          auto slot = world.expose(spec, tensor);
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, i)));
        } else {
          fill(tensor, pattern_of(1, 0, i));
          EXPECT_TRUE(put_once(world, spec, tensor).ok());
        }
        EXPECT_EQ(job.network.counts(world.rank()).of(VerbsCall::reg_mr), before + 1);
      }
      EXPECT_TRUE(soon([&] { return given_back == 1; }));
      meeting.wait();
    }
  });
}

TEST(WeftNic, ThatNamesNoPortIsToldWhereTheJobGoesOnWithoutRdma) {
  const TempFolder folder;
  NicJob job;
  job.run(2,
          settings()
              .with(Setting::nic, "nosuch0")
              .with(Setting::log_file, (folder.path() / "%r").string()),
          [](World&) {});
  std::ostringstream log;
  log << std::ifstream(folder.path() / "1").rdbuf();
  EXPECT_TRUE(contains(log.str(), "WEFT_NIC=\"nosuch0\"")) << log.str();
  EXPECT_TRUE(contains(log.str(), "no such RDMA port is here")) << log.str();
}

}  // namespace
}  // namespace weft::tests
