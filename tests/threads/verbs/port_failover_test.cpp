// Ports that fail under load: nothing is lost, torn or doubled, the counters tell, and the ports
// come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/verbs/link_state.hpp"
#include "p2p/transport/verbs/message_head.hpp"
#include "tests/support/soon.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kMiB = 1 << 20;

const PathReport& path_to(const Report& report, int peer) {
  return *std::ranges::find(report.paths, peer, &PathReport::peer);
}

/// Two ranks with NICs "fake0", "fake1", ...
class FailoverJob {
 public:
  explicit FailoverJob(int nics, const NicSpec& kind = {}, const NetworkOptions& options = {})
      : network(options), nics_(static_cast<std::size_t>(nics), kind) {
    for (int i = 0; i < nics; ++i) nics_[static_cast<std::size_t>(i)].name = name(i);
  }
  static std::string name(int nic) { return "fake" + std::to_string(nic); }
  int nics() const { return static_cast<int>(nics_.size()); }

  void run(const std::function<void(World&)>& body, Config config = verbs_settings()) {
    run_ranks(
        2,
        [&](World& world) {
          ranks_[static_cast<std::size_t>(world.rank())] = &world;
          meeting.wait();
          body(world);
          meeting.wait();
        },
        config.with(Setting::rails, "4"),
        [this](int rank) { return network.devices(rank, nics_); });
    EXPECT_EQ(network.complaints(), "");
    EXPECT_EQ(network.left_behind(), "");
  }
  PathReport path(int rank) const {
    return path_to(ranks_.at(static_cast<std::size_t>(rank))->report(), 1 - rank);
  }
  bool has_all_ports(int rank) const {
    const PathReport report = path(rank);
    return report.rails.size() == nics_.size() && report.rails_back == report.rails_lost &&
           std::ranges::all_of(report.rails, &RailReport::up);
  }
  bool have_all_ports() const { return has_all_ports(0) && has_all_ports(1); }
  bool have_lost(std::uint64_t ports) const {
    return path(0).rails_lost >= ports && path(1).rails_lost >= ports;
  }

  FakeNetwork network;
  Meeting meeting{2};

 private:
  std::vector<NicSpec> nics_;
  std::array<World*, 2> ranks_{};
};

/// Cuts a port besides the first, in one way after another, until both ends have lost it, and gives
/// it back; then the next, until some time has passed. The load must go on meanwhile.
class PortCutter {
 public:
  explicit PortCutter(FailoverJob& job) : job_(job), thread_([this] { run(); }) {}
  ~PortCutter() { thread_.join(); }
  bool is_over() const { return over_; }
  /// Once it is over: how many losses each end has seen.
  std::uint64_t cut() const { return cut_; }

 private:
  void set_cut(int rank, const std::string& nic, bool is_silent, bool is_cut) {
    if (is_silent)
      job_.network.isolate_nic(rank, nic, is_cut);
    else
      job_.network.set_nic_port(rank, nic, !is_cut);
  }
  void run() {
    std::mt19937 random(7);
    const auto below = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    const auto end = Deadline::after(milliseconds(3500));
    while (!end.passed()) {
      std::this_thread::sleep_for(milliseconds(below(15)));
      if (!job_.have_all_ports()) continue;
      const int rank = below(2);
      const bool is_silent = below(2) == 0;
      // One of them, or all but the first at once.
      const bool all = below(3) == 0;
      const int one = 1 + below(job_.nics() - 1);
      std::uint64_t ports = 0;
      for (int nic = 1; nic < job_.nics(); ++nic) {
        if (!all && nic != one) continue;
        ++ports;
        set_cut(rank, FailoverJob::name(nic), is_silent, true);
      }
      cut_ += ports;
      EXPECT_TRUE(soon([&] { return job_.have_lost(cut_); }, seconds(10)));
      std::this_thread::sleep_for(milliseconds(below(30)));
      for (int nic = 1; nic < job_.nics(); ++nic)
        set_cut(rank, FailoverJob::name(nic), is_silent, false);
    }
    over_ = true;
  }

  FailoverJob& job_;
  std::atomic<bool> over_{false};
  std::uint64_t cut_ = 0;
  std::thread thread_;
};

struct Load {
  int nics = 2;
  const char* name = "";
  NicSpec kind = {};
  const char* queue_pairs = "1";
  const char* queues = "0";
  const char* notify = "auto";
};
void PrintTo(const Load& load, std::ostream* to) { *to << load.name; }

class PortFailover : public testing::TestWithParam<Load> {};

TEST_P(PortFailover, LosesNothingOfPutsBothWays) {
  const std::vector<std::int64_t> sizes{1000, kMiB, 3 * kMiB + 8, 16 * kMiB, 64 * kMiB};
  FailoverJob job(GetParam().nics, GetParam().kind);
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> cut{0};
  job.run(
      [&](World& world) {
        const int peer = 1 - world.rank();
        std::vector<SlotSpec> specs;
        for (const std::int64_t bytes : sizes)
          specs.push_back({.name = "s" + std::to_string(bytes),
                           .dtype = DType::u8,
                           .shape = {bytes},
                           .depth = 2});
        std::vector<Slot> slots;
        std::vector<RemoteSlot> remotes;
        std::vector<Tensor> sources;
        for (const SlotSpec& spec : specs) slots.push_back(world.expose(spec));
        for (const SlotSpec& spec : specs) {
          remotes.push_back(world.attach(peer, spec));
          sources.push_back(world.allocate(spec.dtype, spec.shape));
        }
        job.meeting.wait();
        std::optional<PortCutter> cutter;
        if (world.rank() == 0) cutter.emplace(job);
        for (std::uint64_t n = 1;; ++n) {
          std::vector<Request> requests;
          // The largest ones take most of the time.
          const auto is_due = [&](std::size_t i) { return i < 3 || n % (i == 3 ? 4 : 16) == 0; };
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (!is_due(i)) continue;
            fill(sources[i], pattern_of(world.rank(), static_cast<int>(i), n));
            requests.push_back(
                remotes[i].put(sources[i], n % 2 == 0 ? Until::delivered : Until::reusable));
          }
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            if (!is_due(i)) continue;
            auto arrival = slots[i].wait();
            ASSERT_TRUE(arrival.ok()) << arrival.status().text();
            ASSERT_TRUE(holds(arrival->tensor(), pattern_of(peer, static_cast<int>(i), n)))
                << n << " of slot " << i;
          }
          for (Request& request : requests) {
            const Status status = request.wait();
            ASSERT_TRUE(status.ok()) << status.text();
          }
          // The same number of rounds at both ends.
          if (cutter) ends = cutter->is_over();
          job.meeting.wait();
          const bool over = ends;
          job.meeting.wait();
          if (over) break;
        }
        if (cutter) cut = cutter->cut();
        job.meeting.wait();
        EXPECT_TRUE(soon([&] { return job.has_all_ports(world.rank()); }, seconds(15)));
        EXPECT_EQ(job.path(world.rank()).rails_lost, cut);
        EXPECT_GT(cut, 2U);
      },
      verbs_settings()
          .with(Setting::qps_per_peer, GetParam().queue_pairs)
          .with(Setting::cqs, GetParam().queues)
          .with(Setting::notify, GetParam().notify)
          .with(Setting::arena_chunk, "64m"));
}

const NicSpec kUnsteady{.max_message = 300'000,
                        .faults = {.delayed = 0.2, .late = 0.2, .scattered = 0.3, .full = 0.05}};

/// Packets of a lost queue pair come until the peer's takes no more.
const NicSpec kStraggling{.faults = {.straggling = 1, .longest = milliseconds(30)}};

INSTANTIATE_TEST_SUITE_P(
    Ports, PortFailover,
    testing::Values(Load{.name = "TwoPorts"}, Load{.nics = 3, .name = "ThreePorts"},
                    Load{.nics = 2, .name = "UnsteadyPorts", .kind = kUnsteady},
                    Load{.nics = 2, .name = "TwoQueuePairsEach", .queue_pairs = "2"},
                    Load{.nics = 3, .name = "ThreadsAtQueues", .queues = "2"},
                    Load{.name = "StragglingPorts", .kind = kStraggling},
                    Load{.name = "Counted", .notify = "counted"},
                    Load{.name = "PortsInOrder", .kind = {.data_in_order = true}}),
    [](const auto& of) { return std::string(of.param.name); });

SlotSpec large_slot() {
  return {.name = "in", .dtype = DType::u8, .shape = {4 * kMiB}, .depth = 2};
}

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
      : remote_(world.attach(0, large_slot())), tensor_(world.allocate(DType::u8, {4 * kMiB})) {}
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
        EXPECT_GT(far_bytes(), static_cast<std::uint64_t>(8 * kMiB));
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
        EXPECT_GT(far_bytes(), before + 8 * kMiB) << "its share is back";
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
        Slot slot = world.expose(large_slot());
        Status status;
        for (std::uint64_t n = 1; status.ok(); ++n) {
          auto arrival = slot.wait();
          status = arrival.status();
          if (!arrival.ok()) break;
          EXPECT_TRUE(holds(arrival->tensor(), pattern_of(1, 0, n))) << n;
        }
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

TEST(AFailedPort, EndsThePathIfThePeerTellsNonsenseOfIt) {
  using p2p::verbs::LinkMessage;
  using p2p::verbs::MessageHead;
  const std::vector<std::function<void(LinkMessage&)>> lies{
      [](LinkMessage& message) { message.link = 0; },
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
    job.network.tamper([&](int from, std::span<std::byte> bytes) {
      MessageHead head;
      LinkMessage message;
      if (from != 0 || bytes.size() != sizeof head + sizeof message) return;
      std::memcpy(&head, bytes.data(), sizeof head);
      if (head.kind != MessageHead::Kind::link) return;
      std::memcpy(&message, bytes.data() + sizeof head, sizeof message);
      lie(message);
      std::memcpy(bytes.data() + sizeof head, &message, sizeof message);
    });
    job.run([&](World& world) {
      if (world.rank() == 0) {
        Slot slot = world.expose(large_slot());
        Status status;
        for (std::uint64_t n = 1; status.ok(); ++n) {
          auto arrival = slot.wait();
          status = arrival.status();
          if (!arrival.ok()) break;
          EXPECT_TRUE(holds(arrival->tensor(), pattern_of(1, 0, n))) << n;
        }
        EXPECT_FALSE(status.ok());
        return;
      }
      Writer writer(world);
      for (int i = 0; i < 20; ++i) writer.put().or_throw();
      job.network.set_nic_port(1, "fake1", false);
      Status status;
      for (int i = 0; i < 1000 && status.ok(); ++i) status = writer.put();
      EXPECT_TRUE(tells(status, Code::system, {"rank 0 has told nonsense about rail"}))
          << status.text();
    });
  }
}

}  // namespace
}  // namespace weft::tests
