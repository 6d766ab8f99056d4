// A recording holds the content of the stats segment, outlives its rank, and is complete or absent.
#include "base/stats/recording.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/stats/executor_row.hpp"
#include "base/stats/pinned_peer_stats.hpp"
#include "base/stats/stats_segment.hpp"
#include "base/stats/waits.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

namespace fs = std::filesystem;

StatsView opened(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return StatsView::open(file);
}

struct Rank {
  explicit Rank(
      StatsOptions options = {.rank = 3, .size = 5, .host = "a host", .job = "77.1", .nodes = 4})
      : stats(StatsSegment::create(std::move(options))),
        recorder(stats->ring_state(), stats->ring(), RecordLevel::control) {}
  std::shared_ptr<StatsSegment> stats;
  Recorder recorder;
};

TEST(Recording, HoldsWhatTheSegmentHeld) {
  const tests::TempFolder folder;
  Rank rank;
  rank.stats->path(1).state.store(PathState::failed);
  rank.stats->path(1).health.store(3);
  rank.stats->path(1).host.set("another");
  EdgeRow row(rank.stats, {.name = "gradients", .slot = 9, .role = Role::puts, .peer = 1});
  row.counters().transfers.add(41);
  row.pending().store(2);
  Waits waits(rank.stats->waits(), rank.recorder);
  waits.show({.operation = Operation::put, .peer = 1, .slot = 9, .sequence = 42}, Clock::now(),
             Clock::now());
  const std::vector<std::string> nodes{"a (Relu)", "b (Conv)"};
  ExecutorRow executor(rank.stats, "graph", nodes);
  executor.begin_step(0);
  for (std::uint64_t n = 0; n < 5000; ++n) rank.recorder.control(Event::timeout, 1, 9, n);

  const std::string path =
      write_recording(StatsView::of(rank.stats->bytes()), folder.path().string(),
                      {.why = "rank 1 died without leaving", .by_rank = 2});
  EXPECT_EQ(fs::path(path).filename(),
            "weft-77.1-rank3-a_host-" + std::to_string(::getpid()) + ".weft-recording");
  EXPECT_LT(fs::file_size(path), 4096 * 64 + 30'000U);
  const auto view = opened(path);
  EXPECT_EQ(view.identity().rank, 3);
  EXPECT_STREQ(view.identity().job.data(), "77.1");
  EXPECT_STREQ(view.recorded().why.data(), "rank 1 died without leaving");
  EXPECT_EQ(view.recorded().by_rank, 2);
  EXPECT_GE(view.recorded().monotonic_ns, view.identity().start_monotonic_ns);
  EXPECT_EQ(view.paths()[1].health.load(), 3U);
  EXPECT_EQ(view.paths()[1].host.get(), "another");
  const auto edges = view.edges();
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].report.slot, "gradients");
  EXPECT_EQ(edges[0].report.counters.transfers, 41U);
  EXPECT_EQ(edges[0].pending, 2U);
  ASSERT_EQ(view.waits().size(), 1U);
  EXPECT_EQ(view.waits()[0].about.sequence, 42U);
  ASSERT_EQ(view.executors().size(), 1U);
  EXPECT_EQ(view.executors()[0].name, "graph");
  EXPECT_EQ(view.executors()[0].number, executor.number());
  EXPECT_EQ(view.executors()[0].begun, 1U);
  ASSERT_EQ(view.nodes().size(), 2U);
  EXPECT_EQ(view.nodes()[1].name, "b (Conv)");
  EXPECT_EQ(view.nodes()[1].number, executor.node(1));
  const auto recording = view.recorder().all();
  EXPECT_EQ(recording.begun, 5000U);
  EXPECT_EQ(recording.overwritten, 5000U - 4096);
  ASSERT_EQ(recording.events.size(), 4096U);
  EXPECT_EQ(recording.events.back().value, 4999U);
}

TEST(Recording, TakesTheRoomThatItsEventsTake) {
  const tests::TempFolder folder;
  Rank rank;
  for (std::uint64_t n = 0; n < 3; ++n) rank.recorder.control(Event::timeout, 1, 9, n);
  const std::string path =
      write_recording(StatsView::of(rank.stats->bytes()), folder.path().string(), {.why = "asked"});
  EXPECT_LT(fs::file_size(path), 16'000U);
  EXPECT_EQ(opened(path).recorder().all().events.size(), 3U);
}

TEST(Recording, KnowsTheNamesOfClosedSlots) {
  const tests::TempFolder folder;
  Rank rank;
  { const EdgeRow row(rank.stats, {.name = "gone", .slot = 4}); }
  const EdgeRow row(rank.stats, {.name = "there", .slot = 5});  // not in the same place
  const std::string path =
      write_recording(StatsView::of(rank.stats->bytes()), folder.path().string(), {.why = "asked"});
  const auto view = opened(path);
  EXPECT_EQ(view.edges().size(), 1U);
  ASSERT_EQ(view.all_edges().size(), 2U);
  EXPECT_EQ(view.all_edges()[0].report.slot, "gone");
}

TEST(Recording, IsReplacedByALaterOneUnlessAPeerMakesIt) {
  const tests::TempFolder folder;
  Rank rank;
  const auto view = StatsView::of(rank.stats->bytes());
  const std::string path = write_recording(view, folder.path().string(), {.why = "first"});
  EXPECT_EQ(write_recording(view, folder.path().string(), {.why = "second", .only_if_none = true}),
            path);
  EXPECT_STREQ(opened(path).recorded().why.data(), "first");
  write_recording(view, folder.path().string(), {.why = "third"});
  EXPECT_STREQ(opened(path).recorded().why.data(), "third");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Recording, IsRefusedWhereItCannotLie) {
  Rank rank;
  try {
    write_recording(StatsView::of(rank.stats->bytes()), "/does/not/exist", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    EXPECT_NE(std::string(error.what()).find("/does/not/exist"), std::string::npos);
  }
}

TEST(PinnedPeerStats, OutliveTheirRanks) {
  PinnedPeerStats held;
  {
    Rank rank;
    rank.recorder.control(Event::joined, -1);
    held.keep(3, os::Fd(::fcntl(rank.stats->file().get(), F_DUPFD_CLOEXEC, 0)));
  }
  const auto view = held.of(3);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->recorder().all().events.size(), 1U);
  held.drop(3);
  EXPECT_FALSE(held.of(3).has_value());
}

TEST(StatsInAFile, GoesWithARankThatEndsInOrder) {
  const tests::TempFolder folder;
  const std::string path = folder.path().string() + "/weft-status-1-rank0";
  {
    const Rank rank({.file = path});
    ASSERT_EQ(rank.stats->hidden_because(), "");
    EXPECT_EQ(opened(path).identity().pid, ::getpid());
    // A recording does not replace another rank's stats segment of that name.
    const auto other = StatsSegment::create({.file = path});
    EXPECT_NE(other->hidden_because(), "");
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace weft::stats
