// The stats segment has the promised layout, takes no memory that does not exist, and reuses an
// entry for one edge after another.
#include "base/stats/stats_segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/stats/stats_view.hpp"
#include "tests/seeds.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

std::string name_of(std::uint64_t slot) { return "slot " + std::to_string(slot); }

using Rows = std::vector<std::unique_ptr<EdgeRow>>;

Rows take(const std::shared_ptr<StatsSegment>& stats, std::uint64_t count) {
  Rows rows;
  for (std::uint64_t n = 0; n < count; ++n)
    rows.push_back(std::make_unique<EdgeRow>(
        stats, EdgeAbout{.name = name_of(n), .slot = n, .role = Role::receives, .fabric = "shm"}));
  return rows;
}

std::int64_t pages_of(const StatsSegment& stats) {
  struct stat about {};
  EXPECT_EQ(::fstat(stats.file().get(), &about), 0);
  return about.st_blocks;
}

TEST(StatsSegment, ShowsWhoItsRankIs) {
  const auto stats = StatsSegment::create({.rank = 3, .size = 5, .host = "a-host"});
  ASSERT_EQ(stats->hidden_because(), "");
  const auto view = StatsView::open(stats->file());
  EXPECT_EQ(view.identity().rank, 3);
  EXPECT_EQ(view.identity().size, 5);
  EXPECT_EQ(view.identity().pid, ::getpid());
  EXPECT_STREQ(view.identity().host.data(), "a-host");
  EXPECT_GT(view.identity().start_unix_ns, 0U);
  ASSERT_EQ(view.paths().size(), 5U);
  EXPECT_EQ(view.paths()[4].peer, 4);
  EXPECT_TRUE(view.edges().empty());
  EXPECT_EQ(view.recorder().last(9).begun, 0U);
}

TEST(StatsSegment, DescribesItsOwnSections) {
  const auto stats = StatsSegment::create({.size = 2, .records = 16, .max_edges = 10});
  const auto bytes = stats->bytes();
  const auto& header = *reinterpret_cast<const Header*>(bytes.data());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), 8), "weftstat");
  EXPECT_EQ(header.version, kVersion);
  EXPECT_EQ(header.bytes, bytes.size());
  const char* const names[] = {"identity", "schema",    "recorded", "totals",   "paths", "waits",
                               "failures", "executors", "nodes",    "recorder", "ring",  "edges"};
  static_assert(std::size(names) == kSections);
  std::uint64_t end = header.header_bytes;
  for (std::size_t i = 0; i < kSections; ++i) {
    const Section& section = header.sections[i];
    EXPECT_STREQ(section.name.data(), names[i]);
    EXPECT_GE(section.offset, end);
    end = section.offset + std::uint64_t{section.entry_bytes} * section.capacity;
  }
  EXPECT_LE(end, bytes.size());
  EXPECT_EQ(header.sections[10].capacity, 16U);
  EXPECT_EQ(header.sections[11].capacity, 10U);
  EXPECT_NE(schema().find("roles puts receives publishes views calls\n"), std::string::npos);
  EXPECT_NE(schema().find("events none joined connected "), std::string::npos);
}

TEST(StatsSegment, ShowsAnEdgeAndItsCounters) {
  const auto stats = StatsSegment::create({});
  const std::string name(200, 'n');
  EdgeRow row(stats, {.name = name,
                      .slot = 17,
                      .role = Role::publishes,
                      .state = EdgeState::attaching,
                      .fabric = "shm"});
  row.counters().transfers.add(2);
  row.counters().bytes_moved.add(1U << 20U);
  row.counters().credit_writes.add(3);
  row.counters().credit_writes_on_demand.add(4);
  row.set_peer(6);
  row.set_state(EdgeState::live);
  const auto edges = StatsView::open(stats->file()).edges();
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].report.slot, name);
  EXPECT_EQ(edges[0].report.fabric, "shm");
  EXPECT_EQ(edges[0].report.role, Role::publishes);
  EXPECT_EQ(edges[0].report.peer, 6);
  EXPECT_EQ(edges[0].slot, 17U);
  EXPECT_EQ(edges[0].state, EdgeState::live);
  EXPECT_EQ(edges[0].report.counters.transfers, 2U);
  EXPECT_EQ(edges[0].report.counters.bytes_moved, 1U << 20U);
  EXPECT_EQ(edges[0].report.counters.credit_writes, 7U);
}

TEST(StatsSegment, GivesEveryEdgeCacheLinesOfItsOwn) {
  const auto stats = StatsSegment::create({});
  const auto rows = take(stats, 300);
  for (const auto& row : rows)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&row->counters()) % 64, 0U);
  EXPECT_EQ(sizeof(EdgeCounters) % 64, 0U);
}

TEST(StatsSegment, ReusesEntriesSoThatCyclesDontGrowIt) {
  constexpr std::uint64_t kSlots = tests::seeds(10'000);
  const auto stats = StatsSegment::create({});
  auto rows = take(stats, kSlots);
  const auto pages = pages_of(*stats);
  const auto view = StatsView::open(stats->file());
  EXPECT_EQ(view.totals().edges_shown.load(), kSlots);
  for (int cycle = 0; cycle < 20; ++cycle) {
    rows.front()->counters().transfers.add(1);
    rows.clear();
    rows = take(stats, kSlots);
  }
  EXPECT_EQ(pages_of(*stats), pages);
  EXPECT_EQ(view.totals().edges_shown.load(), kSlots);
  EXPECT_EQ(view.totals().edges_not_shown.load(), 0U);
  for (const auto& row : rows) {
    EXPECT_TRUE(row->shown());
    EXPECT_EQ(row->counters().transfers.get(), 0U);
  }
  rows.clear();
  EXPECT_EQ(view.totals().edges_shown.load(), 0U);
  EXPECT_TRUE(view.edges().empty());
}

TEST(StatsSegment, CountsEdgesThatFindNoPlaceAndKeepsTheirCounts) {
  const auto stats = StatsSegment::create({.max_edges = 10});
  auto rows = take(stats, 13);
  const auto view = StatsView::open(stats->file());
  EXPECT_EQ(view.totals().edges_shown.load(), 10U);
  EXPECT_EQ(view.totals().edges_not_shown.load(), 3U);
  EXPECT_FALSE(rows.back()->shown());
  rows.back()->counters().transfers.add(5);
  EXPECT_EQ(rows.back()->counters().read().transfers, 5U);
  rows.clear();
  EXPECT_EQ(view.totals().edges_not_shown.load(), 0U);
  EXPECT_TRUE(take(stats, 1).front()->shown());
}

TEST(StatsSegment, TakesNoMemoryThatItMayNotHave) {
  bool more = true;
  const auto stats = StatsSegment::create({.may_grow = [&](std::size_t) { return more; }});
  auto rows = take(stats, 1);
  more = false;
  const auto pages = pages_of(*stats);
  rows = take(stats, 1000);
  EXPECT_TRUE(rows.front()->shown());
  EXPECT_FALSE(rows.back()->shown());
  EXPECT_EQ(pages_of(*stats), pages);
  const auto view = StatsView::open(stats->file());
  EXPECT_EQ(view.totals().edges_shown.load() + view.totals().edges_not_shown.load(), 1000U);
  more = true;
  EXPECT_TRUE(take(stats, 1).front()->shown());
}

TEST(StatsSegment, IsHiddenWhereNoFileCanBeHad) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto stats = StatsSegment::create({.rank = 1, .size = 2});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(stats->hidden_because().find("RLIMIT_FSIZE"), std::string::npos);
  EXPECT_FALSE(stats->file());
  auto rows = take(stats, 2);
  EXPECT_FALSE(rows[0]->shown());
  rows[1]->counters().transfers.add(1);
  EXPECT_EQ(rows[1]->counters().read().transfers, 1U);
  stats->path(1).counters.registrations.add(1);
  Recorder(stats->ring_state(), stats->ring(), RecordLevel::control).control(Event::joined, -1);
  EXPECT_EQ(RecorderView(stats->ring_state(), stats->ring()).last(1).events.size(), 1U);
}

TEST(StatsSegment, CanNeitherBeResizedNorWrittenFromOutside) {
  const auto stats = StatsSegment::create({});
  EXPECT_NE(::ftruncate(stats->file().get(), 4096), 0);
  EXPECT_NE(::ftruncate(stats->file().get(), 1 << 30), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(stats->file().get());
  const os::Fd outside(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(outside);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, outside.get(), 0),
            MAP_FAILED);
  EXPECT_NE(::fcntl(stats->file().get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(StatsSegment, NeverShowsOneEdgesNameWithAnothersNumber) {
  const auto stats = StatsSegment::create({});
  std::atomic<bool> changing{true};
  std::thread owner([&] {
    for (std::uint64_t n = 0; n < 200'000; ++n) {
      EdgeRow row(stats, {.name = name_of(n), .slot = n});
      row.counters().transfers.add(n);
    }
    changing = false;
  });
  const auto view = StatsView::open(stats->file());
  std::uint64_t wrong = 0;
  while (changing)
    for (const auto& edge : view.edges())
      if (edge.report.slot != name_of(edge.slot) ||
          (edge.report.counters.transfers != 0 && edge.report.counters.transfers != edge.slot))
        ++wrong;
  owner.join();
  EXPECT_EQ(wrong, 0U);
}

TEST(StatsView, RefusesWhatIsNoStatsSegment) {
  const auto refusal = [](const std::string& content) -> std::string {
    const os::Fd file(::memfd_create("other", MFD_CLOEXEC));
    EXPECT_EQ(::write(file.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    try {
      static_cast<void>(StatsView::open(file));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("weftstat").find("8 bytes are no stats segment"), std::string::npos);
  EXPECT_NE(refusal(std::string(8192, 'x')).find("it is no stats segment"), std::string::npos);
  EXPECT_NE(refusal("weftstat" + std::string(8192, '\7')).find("version"), std::string::npos);
  std::string zeros(8192, '\0');
  zeros.replace(0, 9, "weftstat" + std::string(1, static_cast<char>(kVersion)));
  EXPECT_NE(refusal(zeros).find("section 0 does not lie within it"), std::string::npos);
}

}  // namespace
}  // namespace weft::stats
