// Rails whose connections end under load: nothing is lost, torn or doubled, nothing hangs, the
// counters tell, and the rails come back.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The sockets of this process that are rails: the kernel asks for signs of life on them, and may
/// give them up.
std::vector<int> rail_sockets() {
  std::vector<int> rails;
  for (int fd = 3; fd < 1024; ++fd) {
    int alive = 0;
    unsigned patience = 1;
    tcp_info info{};
    socklen_t size = sizeof alive;
    if (::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &alive, &size) != 0 || alive == 0) continue;
    size = sizeof patience;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, &size) != 0 || patience != 0)
      continue;
    size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        info.tcpi_state == TCP_ESTABLISHED)
      rails.push_back(fd);
  }
  return rails;
}

const PathReport& path_to(const Report& report, int peer) {
  return *std::ranges::find(report.paths, peer, &PathReport::peer);
}

/// Whether a rank has all of its rails, and they have come back as often as they were lost.
bool has_all_rails(const World& world, std::size_t rails) {
  const Report report = world.report();
  const PathReport& path = path_to(report, 1 - world.rank());
  return path.rails.size() == rails && path.rails_back == path.rails_lost &&
         std::ranges::all_of(path.rails, &RailReport::up);
}

/// Cuts one connection after another, each once all rails are there at both ends of a job of two.
class Cutter {
 public:
  Cutter(const std::array<World*, 2>& ranks, std::size_t rails)
      : ranks_(ranks), rails_(rails), thread_([this] { run(); }) {}
  ~Cutter() { stop(); }
  /// How many were cut.
  int stop() {
    if (!over_.exchange(true)) thread_.join();
    return cut_;
  }

 private:
  bool are_all_there() const {
    return std::ranges::all_of(ranks_, [&](const World* w) { return has_all_rails(*w, rails_); });
  }
  bool have_lost(std::uint64_t rails) const {
    return std::ranges::all_of(ranks_, [&](const World* w) {
      const Report report = w->report();
      return path_to(report, 1 - w->rank()).rails_lost >= rails;
    });
  }
  void run() {
    std::mt19937 random(7);
    while (!over_) {
      std::this_thread::sleep_for(milliseconds(random() % 10));
      if (!are_all_there() || over_) continue;
      const std::vector<int> rails = rail_sockets();
      if (rails.empty() || ::shutdown(rails[random() % rails.size()], SHUT_RDWR) != 0) continue;
      ++cut_;
      // Two rails of two that fail at once are the end of the path.
      (void)soon([&] { return have_lost(static_cast<std::uint64_t>(cut_)); }, seconds(15));
    }
  }
  const std::array<World*, 2> ranks_;
  const std::size_t rails_;
  std::atomic<bool> over_{false};
  int cut_ = 0;
  std::thread thread_;
};

struct Path {
  int rails = 2;
  std::string encrypt = "0";
  std::string checksum = "0";
};

Config by(const Path& path) {
  return settings()
      .with(Setting::fabric, "tcp")
      .with(Setting::rails, std::to_string(path.rails))
      .with(Setting::encrypt, path.encrypt)
      .with(Setting::checksum, path.checksum)
      .with(Setting::log, "off");
}

void fill(const Tensor& tensor, std::uint32_t n) {
  const auto values = tensor.as<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(n * 2654435761U + i);
}

bool holds(std::span<const std::int32_t> values, std::uint32_t n) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int32_t>(n * 2654435761U + i)) return false;
  return true;
}

class Failover : public testing::TestWithParam<Path> {};

TEST_P(Failover, LosesNothingOfPutsGetsAndMessages) {
  const auto rails = static_cast<std::size_t>(GetParam().rails);
  const std::vector<std::int64_t> counts{4, 1000, 40'000, 150'000, 1'000'000};
  std::atomic<bool> ends{false};
  std::atomic<int> cut{0};
  std::array<World*, 2> ranks{};
  Meeting meeting(2);
  run_on(2, by(GetParam()), [&](World& world) {
    const int peer = 1 - world.rank();
    ranks[static_cast<std::size_t>(world.rank())] = &world;
    std::vector<Slot> slots;
    std::vector<RemoteSlot> remotes;
    for (std::size_t i = 0; i < counts.size(); ++i)
      slots.push_back(world.expose({.name = "s" + std::to_string(i),
                                    .dtype = DType::i32,
                                    .shape = {counts[i]},
                                    .depth = 3}));
    Slot dynamic = world.expose({.name = "dynamic",
                                 .dtype = DType::i32,
                                 .shape = {0},
                                 .depth = 2,
                                 .placement = Placement::dynamic});
    std::vector<Tensor> sources;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      remotes.push_back(world.attach(peer, {.name = "s" + std::to_string(i),
                                            .dtype = DType::i32,
                                            .shape = {counts[i]},
                                            .depth = 3}));
      sources.push_back(world.allocate(DType::i32, {counts[i]}));
    }
    RemoteSlot to_dynamic = world.attach(peer, {.name = "dynamic",
                                                .dtype = DType::i32,
                                                .shape = {0},
                                                .depth = 2,
                                                .placement = Placement::dynamic});
    meeting.wait();
    std::optional<Cutter> cutter;
    if (world.rank() == 0) cutter.emplace(ranks, rails);
    const auto end = Deadline::after(milliseconds(2500));
    for (std::uint32_t n = 1;; ++n) {
      const std::uint32_t seed = 16 * n + static_cast<std::uint32_t>(world.rank());
      const std::uint32_t others = 16 * n + static_cast<std::uint32_t>(peer);
      std::vector<Request> requests;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        fill(sources[i], seed);
        requests.push_back(
            remotes[i].put(sources[i], n % 2 == 0 ? Until::delivered : Until::reusable));
      }
      const Tensor some = world.allocate(DType::i32, {static_cast<std::int64_t>(n % 50'000)});
      fill(some, seed);
      requests.push_back(to_dynamic.put(some));
      for (std::size_t i = 0; i < counts.size(); ++i) {
        auto arrival = slots[i].wait();
        ASSERT_TRUE(arrival.ok()) << arrival.status().text();
        ASSERT_TRUE(holds(std::move(arrival).value().as<std::int32_t>(), others))
            << n << " of slot " << i;
      }
      {
        auto arrival = dynamic.wait();
        ASSERT_TRUE(arrival.ok()) << arrival.status().text();
        ASSERT_TRUE(holds(std::move(arrival).value().as<std::int32_t>(), others)) << n;
      }
      for (Request& request : requests) {
        const Status status = request.wait();
        ASSERT_TRUE(status.ok()) << status.text();
      }
      // The same number of rounds at both ends.
      if (world.rank() == 0) ends = end.passed();
      meeting.wait();
      const bool over = ends;
      meeting.wait();
      if (over) break;
    }
    if (cutter) cut = cutter->stop();
    meeting.wait();
    EXPECT_TRUE(soon([&] { return has_all_rails(world, rails); }, seconds(15)));
    EXPECT_GT(cut, 2);
    const Report report = world.report();
    EXPECT_EQ(path_to(report, peer).rails_lost, static_cast<std::uint64_t>(cut));
    meeting.wait();
  });
}

std::string text(const Path& path) {
  return std::to_string(path.rails) + (path.encrypt == "1" ? "Encrypted" : "") +
         (path.checksum == "1" ? "Checked" : "");
}
void PrintTo(const Path& path, std::ostream* to) { *to << text(path); }

INSTANTIATE_TEST_SUITE_P(Rails, Failover,
                         testing::Values(Path{.rails = 2}, Path{.rails = 3}, Path{.rails = 8},
                                         Path{.encrypt = "1"}, Path{.checksum = "1"}),
                         [](const auto& of) { return text(of.param); });

}  // namespace
}  // namespace weft::tests
