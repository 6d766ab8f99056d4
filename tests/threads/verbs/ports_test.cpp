// Ranks with several ports: who carries what.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kOneMiB = 1 << 20;
constexpr std::uint8_t kTwiceAsFast = 64;  // twice the rate of PortSpec

NicSpec nic_named(std::string name, std::uint8_t speed = p2p::verbs::fake::PortSpec{}.speed) {
  NicSpec spec{.name = std::move(name)};
  spec.ports.front().speed = speed;
  return spec;
}

/// A job whose ranks have these NICs.
class PortsJob {
 public:
  explicit PortsJob(std::vector<std::vector<NicSpec>> nics) : nics_(std::move(nics)) {}
  explicit PortsJob(const std::vector<NicSpec>& nics) : PortsJob(std::vector{nics, nics}) {}

  void run(const std::function<void(World&)>& body,
           const Config& config = verbs_settings().with(Setting::rails, "4")) {
    run_ranks(static_cast<int>(nics_.size()), body, config, [this](int rank) {
      return network.devices(rank, nics_.at(static_cast<std::size_t>(rank)));
    });
    EXPECT_EQ(network.complaints(), "");
    EXPECT_EQ(network.left_behind(), "");
  }
  std::uint64_t posted(int rank, const std::string& nic) const {
    const NicCounts counts = network.counts(rank, nic);
    return counts.writes + counts.writes_with_immediate + counts.sends + counts.reads;
  }

  FakeNetwork network;

 private:
  const std::vector<std::vector<NicSpec>> nics_;
};

SlotSpec bytes_spec(std::int64_t bytes) {
  return {.name = "in", .dtype = DType::u8, .shape = {bytes}, .depth = 2};
}

/// Rank 1 puts `count` tensors into a slot of rank 0, each in `shares` shares; `before` and `after`
/// are called at rank 1 while nothing is under way.
void carry_and_count(World& world, Meeting& meeting, std::int64_t bytes, std::uint64_t count,
                     std::uint64_t shares, const std::function<void()>& before = {},
                     const std::function<void()>& after = {}) {
  const SlotSpec spec = bytes_spec(bytes);
  if (world.rank() == 0) {
    Slot slot = world.expose(spec);
    for (std::uint64_t n = 1; n <= count; ++n)
      EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n))) << n;
    meeting.wait();
    return;
  }
  RemoteSlot remote = world.attach(0, spec);
  const Tensor tensor = world.allocate(spec.dtype, spec.shape);
  for (std::uint64_t n = 1; n <= count; ++n) {
    fill(tensor, pattern_of(1, 0, n));
    if (n == 2 && before) before();
    remote.put(tensor, Until::delivered).wait().or_throw();
    if (n == 2 && after) after();
  }
  EXPECT_EQ(edge_counters(world, spec.name, Role::puts).work_requests, count * shares);
  meeting.wait();
}

TEST(SeveralPorts, ShareALargeTensorByTheirRates) {
  PortsJob job({nic_named("fake0", kTwiceAsFast), nic_named("fake1")});
  Meeting meeting(2);
  std::uint64_t fast = 0;
  std::uint64_t slow = 0;
  job.run([&](World& world) {
    carry_and_count(
        world, meeting, 6 * kOneMiB, 3, 2,
        [&] {
          fast = job.network.counts(1, "fake0").bytes;
          slow = job.network.counts(1, "fake1").bytes;
        },
        [&] {
          fast = job.network.counts(1, "fake0").bytes - fast;
          slow = job.network.counts(1, "fake1").bytes - slow;
        });
  });
  EXPECT_NEAR(static_cast<double>(fast), 4.0 * kOneMiB, 0.2 * kOneMiB);
  EXPECT_NEAR(static_cast<double>(slow), 2.0 * kOneMiB, 0.2 * kOneMiB);
}

/// If it went whole, by one port, it would pass the shares of a tensor before it.
TEST(SeveralPorts, ShareALargeTensorOfSeveralPartsToo) {
  PortsJob job({nic_named("fake0"), nic_named("fake1")});
  Meeting meeting(2);
  job.run([&](World& world) {
    const SlotSpec spec = bytes_spec(2 * kOneMiB);
    if (world.rank() == 0) {
      Slot slot = world.expose(spec);
      for (int n = 0; n < 2; ++n) {
        const Arrival arrival = slot.wait().value();
        const std::byte* const data = arrival.tensor().data();
        EXPECT_EQ(std::count(data, data + kOneMiB, std::byte{1}), kOneMiB) << n;
        EXPECT_EQ(std::count(data + kOneMiB, data + 2 * kOneMiB, std::byte{2}), kOneMiB) << n;
      }
      meeting.wait();
      return;
    }
    RemoteSlot remote = world.attach(0, spec);
    std::vector<Tensor> parts;
    for (const int value : {1, 2}) {
      parts.push_back(world.allocate(spec.dtype, {kOneMiB}));
      std::memset(parts.back().data(), value, kOneMiB);
    }
    Tensor whole = world.allocate(spec.dtype, spec.shape);
    std::memset(whole.data(), 1, kOneMiB);
    std::memset(whole.data() + kOneMiB, 2, kOneMiB);
    Request first = remote.put(whole);
    Request second = remote.put(parts);
    first.wait().or_throw();
    second.wait().or_throw();
    EXPECT_EQ(edge_counters(world, spec.name, Role::puts).work_requests, 4U)
        << "two shares of each";
    meeting.wait();
  });
}

TEST(SeveralPorts, SendASmallTensorByTheNearestInOneRequest) {
  for (const std::int64_t bytes : {std::int64_t{40}, std::int64_t{100'000}, kOneMiB - 1}) {
    PortsJob job({nic_named("fake0"), nic_named("fake1")});
    Meeting meeting(2);
    NicCounts before;
    std::uint64_t far = 0;
    job.run([&](World& world) {
      carry_and_count(
          world, meeting, bytes, 3, 1,
          [&] {
            before = job.network.counts(1, "fake0");
            far = job.posted(1, "fake1");
          },
          [&] {
            const NicCounts now = job.network.counts(1, "fake0");
            EXPECT_EQ(now.writes_with_immediate - before.writes_with_immediate, 1U) << bytes;
            EXPECT_EQ(job.posted(1, "fake1"), far) << bytes;
          });
    });
  }
}

TEST(SeveralPorts, AreUsedAsFarAsThePeerHasThem) {
  PortsJob job({{nic_named("fake0"), nic_named("fake1"), nic_named("fake2")},
                {nic_named("fake0"), nic_named("fake1")}});
  Meeting meeting(2);
  job.run([&](World& world) { carry_and_count(world, meeting, 4 * kOneMiB, 4, 2); });
  EXPECT_GT(job.network.counts(1, "fake1").bytes, static_cast<std::uint64_t>(6 * kOneMiB));
  EXPECT_EQ(job.network.counts(0, "fake2").of(VerbsCall::create_qp), 1U) << "but to itself";
}

TEST(SeveralPorts, CarryAdoptedMemory) {
  PortsJob job({nic_named("fake0"), nic_named("fake1")});
  Meeting meeting(2);
  const SlotSpec spec = bytes_spec(3 * kOneMiB);
  job.run([&](World& world) {
    std::vector<std::byte> memory(static_cast<std::size_t>(spec.depth * 3 * kOneMiB));
    {
      const Tensor tensor =
          world.adopt(memory.data(), DType::u8, {static_cast<std::int64_t>(memory.size())}, [] {});
      if (world.rank() == 0) {
        Slot slot = world.expose(spec, tensor);
        for (std::uint64_t n = 1; n <= 3; ++n)
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
      } else {
        RemoteSlot remote = world.attach(0, spec);
        const Tensor source = tensor.part(0, {3 * kOneMiB});
        for (std::uint64_t n = 1; n <= 3; ++n) {
          fill(source, pattern_of(1, 0, n));
          remote.put(source).wait().or_throw();
        }
      }
      meeting.wait();
    }
    meeting.wait();
  });
  EXPECT_GT(job.network.counts(1, "fake1").bytes, static_cast<std::uint64_t>(4 * kOneMiB));
}

TEST(SeveralPorts, OfOneDeviceWorkTogether) {
  NicSpec two{.name = "fake0"};
  two.ports.resize(2);
  PortsJob job(std::vector{two});
  Meeting meeting(2);
  job.run([&](World& world) { carry_and_count(world, meeting, 4 * kOneMiB, 3, 2); },
          verbs_settings().with(Setting::nic, "fake0:2,fake0:1"));
  EXPECT_EQ(job.network.counts(1, "fake0").of(VerbsCall::alloc_pd), 2U);
}

TEST(SeveralPorts, AreNotTakenWithoutBeingAskedForOrNear) {
  PortsJob job({nic_named("fake0"), nic_named("fake1")});
  Meeting meeting(2);
  job.run([&](World& world) { carry_and_count(world, meeting, 4 * kOneMiB, 3, 1); },
          verbs_settings());
  EXPECT_EQ(job.network.counts(1, "fake1").of(VerbsCall::alloc_pd), 0U);
}

TEST(SeveralPorts, OneThatFailsGivesItsWorkToTheOthers) {
  for (const bool is_first : {true, false}) {
    std::vector nics{nic_named("fake0"), nic_named("fake1")};
    const std::vector good = nics;
    nics[is_first ? 0 : 1].faults.failures = {{.nth = is_first ? 40U : 12U}};
    PortsJob job({good, nics});
    Meeting meeting(2);
    const SlotSpec spec = bytes_spec(2 * kOneMiB);
    job.run([&](World& world) {
      constexpr std::uint64_t kTensors = 100;
      if (world.rank() == 0) {
        Slot slot = world.expose(spec);
        for (std::uint64_t n = 1; n <= kTensors; ++n)
          EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n))) << n;
      } else {
        RemoteSlot remote = world.attach(0, spec);
        const Tensor tensor = world.allocate(spec.dtype, spec.shape);
        for (std::uint64_t n = 1; n <= kTensors; ++n) {
          fill(tensor, pattern_of(1, 0, n));
          remote.put(tensor, Until::delivered).wait().or_throw();
        }
      }
      meeting.wait();
      const Report report = world.report();
      EXPECT_EQ(report.paths.at(static_cast<std::size_t>(1 - world.rank())).rails_lost, 1U);
    });
  }
}

TEST(SeveralPorts, AreToldInTheLineOfThePath) {
  const TempFolder folder;
  PortsJob job({nic_named("fake0"), nic_named("fake1")});
  job.run([](World&) {}, verbs_settings()
                             .with(Setting::rails, "2")
                             .with(Setting::log, "debug:path")
                             .with(Setting::log_file, (folder.path() / "%r").string()));
  std::ostringstream log;
  log << std::ifstream(folder.path() / "1").rdbuf();
  EXPECT_TRUE(contains(log.str(), "rank 0: fake0:1 to fake0:1, fake1:1 to fake1:1")) << log.str();
}

TEST(SeveralPorts, ThatCantBeOpenedAreLeftOutWithALine) {
  const TempFolder folder;
  NicSpec bad = nic_named("fake1");
  bad.faults.refusals = {{.call = VerbsCall::alloc_pd, .nth = 1, .error = ENOMEM}};
  PortsJob job({nic_named("fake0"), bad});
  Meeting meeting(2);
  job.run([&](World& world) { carry_and_count(world, meeting, 2 * kOneMiB, 3, 1); },
          verbs_settings()
              .with(Setting::rails, "2")
              .with(Setting::log, "warn")
              .with(Setting::log_file, (folder.path() / "%r").string()));
  std::ostringstream log;
  log << std::ifstream(folder.path() / "1").rdbuf();
  EXPECT_TRUE(contains(log.str(), "fake1:1 is left out")) << log.str();
}

}  // namespace
}  // namespace weft::tests
