// An outside reader of a rank's stats segment sees what the rank reports of itself.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/stats/stats_view.hpp"
#include "tests/support/edges.hpp"
#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

using stats::EdgeState;
using stats::Event;
using stats::StatsView;

const SlotSpec kPut{.name = "put", .dtype = DType::f32, .shape = {500}, .depth = 2};
const PublishedSpec kPublished{
    .name = "published", .dtype = DType::f32, .shape = {500}, .depth = 2};

/// A second mapping of the rank's stats segment, found as a tool finds it.
StatsView stats_of_rank(int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // another rank's thread may have closed it
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!contains(target, "memfd:weft-status")) continue;
    const os::Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    auto view = StatsView::open(file);
    if (view.identity().rank == rank) return view;  // own or pinned by a peer: the same memory
  }
  throw std::runtime_error("rank " + std::to_string(rank) + " has no stats segment");
}

auto line(const EdgeReport& edge) {
  const auto& c = edge.counters;
  return std::tuple(edge.slot, edge.peer, static_cast<int>(edge.role), edge.fabric, c.transfers,
                    c.bytes_moved, c.bytes_copied, c.work_requests, c.credit_writes,
                    c.control_messages, c.registrations);
}

TEST(StatsSegmentTest, ShowsTheCountersThatTheWorldReports) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    const auto stats = stats_of_rank(world.rank());
    auto slot = world.expose(kPut);
    auto published = world.expose_published(kPublished);
    auto remote = world.attach(1 - world.rank(), kPut);
    auto reader = world.attach_published(1 - world.rank(), kPublished);
    const auto tensor = world.allocate(kPut.dtype, kPut.shape);
    for (int i = 0; i < 20; ++i) {
      remote.put(tensor).wait().or_throw();
      EXPECT_TRUE(slot.wait().ok());
      (void)published.next().value();
      published.publish().or_throw();
      EXPECT_TRUE(reader.view().ok());
    }
    meeting.wait();
    const auto report = world.report();
    std::multiset<decltype(line({}))> reported;
    std::multiset<decltype(line({}))> shown;
    for (const auto& edge : report.edges) reported.insert(line(edge));
    for (const auto& edge : stats.edges()) {
      EXPECT_EQ(edge.state, EdgeState::live);
      shown.insert(line(edge.report));
    }
    EXPECT_EQ(shown.size(), 4U);
    EXPECT_EQ(shown, reported);
    ASSERT_EQ(stats.paths().size(), report.paths.size());
    for (std::size_t i = 0; i < report.paths.size(); ++i) {
      const auto& path = stats.paths()[i];
      EXPECT_EQ(path.peer, report.paths[i].peer);
      EXPECT_EQ(path.pid, report.paths[i].pid);
      EXPECT_EQ(path.fabric.get(), report.paths[i].fabric);
      EXPECT_EQ(path.state.load(), stats::PathState::connected);
      EXPECT_EQ(path.counters.control_messages.get(), report.paths[i].counters.control_messages);
      EXPECT_EQ(path.counters.registrations.get(), report.paths[i].counters.registrations);
    }
    meeting.wait();
  });
}

std::vector<Event> events_of(const StatsView& stats) {
  std::vector<Event> events;
  for (const auto& event : stats.recorder().last(4096).events) events.push_back(event.event);
  return events;
}

/// Whether the events in `wanted` happened in that order, among others.
bool happened(const std::vector<Event>& events, const std::vector<Event>& wanted) {
  std::size_t next = 0;
  for (const Event event : events)
    if (next < wanted.size() && event == wanted[next]) ++next;
  return next == wanted.size();
}

TEST(StatsSegmentTest, RecordsTheLifeOfASlot) {
  Meeting meeting(2);
  run_on(2, [&](World& world) {
    const auto stats = stats_of_rank(world.rank());
    if (world.rank() == 0) {
      {
        auto slot = world.expose(kPut);
        meeting.wait();  // the other has attached, put and detached
        EXPECT_FALSE(slot.wait(Deadline::after({})).value().tensor().empty());
        EXPECT_EQ(slot.wait(Deadline::after({})).code(), Code::timeout);
        // Not after closing: a writer whose slot is closed agrees to that, and leaves no
        // attachment.
        EXPECT_TRUE(soon([&] {
          return happened(events_of(stats), {Event::attachment_made, Event::attachment_removed});
        }));
      }
      meeting.wait();
      EXPECT_TRUE(soon([&] {
        return happened(events_of(stats), {Event::joined, Event::exposed, Event::attachment_made,
                                           Event::timeout, Event::closing});
      }));
    } else {
      {
        auto remote = world.attach(0, kPut);
        remote.put(world.allocate(kPut.dtype, kPut.shape)).wait().or_throw();
      }
      meeting.wait();
      meeting.wait();
      EXPECT_TRUE(happened(events_of(stats), {Event::joined, Event::attach_asked,
                                              Event::attach_granted, Event::detached}));
      // The data path is recorded only on request.
      EXPECT_FALSE(happened(events_of(stats), {Event::put}));
    }
    EXPECT_TRUE(happened(events_of(stats), {Event::connected, Event::connected}));
  });
}

TEST(StatsSegmentTest, RecordsEveryTransferWhenAsked) {
  Meeting meeting(2);
  run_on(2, settings().with(Setting::record, "all"), [&](World& world) {
    const auto stats = stats_of_rank(world.rank());
    if (world.rank() == 0) {
      auto slot = world.expose(kPut);
      EXPECT_TRUE(slot.wait().ok());
      EXPECT_TRUE(happened(events_of(stats), {Event::arrived, Event::released}));
      meeting.wait();
    } else {
      auto remote = world.attach(0, kPut);
      remote.put(world.allocate(kPut.dtype, kPut.shape)).wait().or_throw();
      EXPECT_TRUE(happened(events_of(stats), {Event::attach_granted, Event::put}));
      meeting.wait();
    }
  });
}

TEST(StatsSegmentTest, GivesAnEdgesPlaceToTheNext) {
  run_on(1, [&](World& world) {
    const auto stats = stats_of_rank(0);
    for (int i = 0; i < 50; ++i) {
      auto slot = world.expose(kPut);
      auto remote = world.attach(0, kPut);
      EXPECT_GE(stats.edges().size(), 2U);
    }
    EXPECT_TRUE(soon([&] { return stats.totals().edges_shown.load() == 0; }));
    EXPECT_TRUE(stats.edges().empty());
  });
}

TEST(StatsSegmentTest, CountsTheSameWithNothingRecorded) {
  run_on(1, settings().with(Setting::record, "off"), [&](World& world) {
    const auto stats = stats_of_rank(0);
    auto slot = world.expose(kPut);
    EXPECT_EQ(stats.edges().size(), 1U);
    EXPECT_EQ(stats.recorder().last(1).begun, 0U);
  });
}

}  // namespace
}  // namespace weft::tests
