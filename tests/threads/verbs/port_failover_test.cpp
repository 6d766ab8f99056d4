// Ports that fail under load: nothing is lost, torn or doubled, the counters tell, and the ports
// come back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/soon.hpp"
#include "tests/threads/verbs/failover_job.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Cuts a port, in one way after another, until both ends have lost it, and gives it back; then the
/// next, until some time has passed. The load must go on meanwhile.
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
      // One of them, or all but one at once.
      const bool all = below(3) == 0;
      const int one = below(job_.nics());
      const int kept = below(job_.nics());
      std::uint64_t ports = 0;
      for (int nic = 0; nic < job_.nics(); ++nic) {
        if (all ? nic == kept : nic != one) continue;
        ++ports;
        set_cut(rank, FailoverJob::name(nic), is_silent, true);
      }
      cut_ += ports;
      EXPECT_TRUE(soon([&] { return job_.have_lost(cut_); }, seconds(10)));
      std::this_thread::sleep_for(milliseconds(below(30)));
      for (int nic = 0; nic < job_.nics(); ++nic)
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
        EXPECT_GE(cut, 2U);
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
                    Load{.name = "ThreadsAtQueues", .queue_pairs = "2", .queues = "2"},
                    Load{.name = "StragglingPorts", .kind = kStraggling},
                    Load{.name = "Counted", .notify = "counted"},
                    Load{.name = "PortsInOrder", .kind = {.data_in_order = true}},
                    Load{.nics = 3,
                         .name = "ThreePortsWithTwoQueuePairsEach",
                         .kind = kUnsteady,
                         .queue_pairs = "2",
                         .queues = "2"}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::tests
