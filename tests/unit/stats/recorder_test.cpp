// The recorder keeps the last events whole and in order, with concurrent writers and readers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/stats/failure_row.hpp"
#include "base/stats/recorder.hpp"
#include "base/stats/stats_segment.hpp"
#include "base/stats/stats_view.hpp"
#include "base/stats/waits.hpp"
#include "tests/pattern.hpp"

namespace weft::stats {
namespace {

struct Ring {
  explicit Ring(std::size_t cells) : records(std::make_unique<Record[]>(cells)), count(cells) {}

  std::span<Record> cells() const { return {records.get(), count}; }
  Recorder recorder(RecordLevel level) { return {state, cells(), level}; }
  Recording last(std::size_t most) const { return RecorderView(state, cells()).last(most); }

  RingState state{};
  std::unique_ptr<Record[]> records;
  std::size_t count;
};

TEST(Recorder, KeepsWhatAnEventSays) {
  Ring ring(8);
  auto recorder = ring.recorder(RecordLevel::control);
  recorder.control(Event::attachment_made, 9999, 0x1'0000'0007, ~std::uint64_t{0});
  recorder.control(Event::joined, -1);
  const auto recording = ring.last(8);
  ASSERT_EQ(recording.events.size(), 2U);
  EXPECT_EQ(recording.events[0].event, Event::attachment_made);
  EXPECT_EQ(recording.events[0].peer, 9999);
  EXPECT_EQ(recording.events[0].slot, 0x1'0000'0007U);
  EXPECT_EQ(recording.events[0].value, ~std::uint64_t{0});
  EXPECT_EQ(recording.events[1].event, Event::joined);
  EXPECT_EQ(recording.events[1].peer, -1);
  EXPECT_EQ(recording.events[1].number, 1U);
  EXPECT_LE(recording.events[0].ended_ns, recording.events[1].started_ns);
  EXPECT_EQ(name(recording.events[1].event), "joined");
}

TEST(Recorder, KeepsHowLongSomethingTook) {
  Ring ring(8);
  auto recorder = ring.recorder(RecordLevel::all);
  const std::uint64_t start = recorder.start();
  EXPECT_GT(start, 0U);
  recorder.data(Event::put, 2, 5, 9, 4096, start);
  recorder.control({.event = Event::waited,
                    .operation = Operation::view,
                    .peer = 1,
                    .value = 3,
                    .started_ns = 77,
                    .code = Code::timeout});
  const auto events = ring.last(8).events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].started_ns, start);
  EXPECT_GE(events[0].ended_ns, start);
  EXPECT_EQ(events[0].bytes, 4096U);
  EXPECT_EQ(events[1].started_ns, 77U);
  EXPECT_EQ(events[1].operation, Operation::view);
  EXPECT_EQ(events[1].code, Code::timeout);
  EXPECT_EQ(ring.recorder(RecordLevel::control).start(), 0U);  // the data path reads no clock
}

TEST(Waits, ShowWhoSleepsForWhom) {
  const auto stats = StatsSegment::create({.size = 4});
  Recorder recorder(stats->ring_state(), stats->ring(), RecordLevel::control);
  Waits waits(stats->waits(), recorder);
  const auto view = StatsView::open(stats->file());
  const auto now = Clock::now();
  const WaitAbout older{.operation = Operation::wait, .peer = 3, .slot = 8, .sequence = 21};
  const WaitAbout newer{.operation = Operation::any};
  WaitEntry* const second = waits.show(newer, now, now + std::chrono::seconds(1));
  WaitEntry* const first = waits.show(older, now - std::chrono::seconds(2), now);
  auto shown = view.waits();
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0].about.operation, Operation::wait);
  EXPECT_EQ(shown[0].about.peer, 3);
  EXPECT_EQ(shown[0].about.slot, 8U);
  EXPECT_EQ(shown[0].about.sequence, 21U);
  EXPECT_EQ(shown[0].since_ns, ns_of(now) - 2'000'000'000);
  EXPECT_EQ(shown[1].about.peer, -1);
  waits.end(first, older, now - std::chrono::seconds(2));
  waits.end(second, newer, Clock::now());
  EXPECT_TRUE(view.waits().empty());
  const auto events = view.recorder().all().events;
  ASSERT_EQ(events.size(), 1U) << "a short wait is not worth a record";
  EXPECT_EQ(events[0].event, Event::waited);
  EXPECT_EQ(events[0].value, 21U);
}

TEST(Waits, ShowWhomACallAwaitsAndWhereItBelongs) {
  const auto stats = StatsSegment::create({.size = 32});
  Recorder recorder(stats->ring_state(), stats->ring(), RecordLevel::control);
  Waits waits(stats->waits(), recorder);
  const auto view = StatsView::open(stats->file());
  const auto now = Clock::now();
  WaitDetails details{.bytes = 4096, .tag = 7, .mask = 0xff};
  for (std::uint64_t rank = 20; details.await(rank); ++rank) {
  }
  details.set_text(std::string(200, 'x'));
  WaitAbout about{.operation = Operation::collective, .peer = 20, .more = 3, .details = &details};
  WaitEntry* entry = nullptr;
  {
    const OuterCall outer("creation", "ps/other", 0);
    const OuterCall call("pull", "ps/model", 17);
    entry = waits.show(about, now, now);
  }
  ASSERT_NE(entry, nullptr);
  auto shown = view.waits();
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].within, "pull of table ps/model, step 17");
  EXPECT_EQ(shown[0].about.more, 3U);
  EXPECT_EQ(shown[0].details.count, kAwaited);
  EXPECT_EQ(shown[0].details.awaited, details.awaited);
  EXPECT_EQ(shown[0].details.bytes, 4096U);
  EXPECT_EQ(shown[0].details.tag, 7U);
  EXPECT_EQ(shown[0].details.mask, 0xffU);
  EXPECT_EQ(shown[0].details.text(), std::string(87, 'x'));
  details = {};
  details.await(25);
  about.peer = 25;
  about.more = 0;
  Waits::renew(*entry, about);
  shown = view.waits();
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].about.peer, 25);
  EXPECT_EQ(shown[0].details.count, 1U);
  EXPECT_EQ(shown[0].details.awaited[0], 25U);
  waits.end(entry, about, now);
  EXPECT_EQ(OuterCall::current(), nullptr);
  entry = waits.show({.operation = Operation::wait, .peer = 1}, now, now);
  shown = view.waits();
  ASSERT_EQ(shown.size(), 1U) << "nothing of the wait before stays";
  EXPECT_EQ(shown[0].within + std::string(shown[0].details.text()), "");
  EXPECT_EQ(shown[0].details.count + shown[0].details.bytes + shown[0].details.mask, 0U);
}

TEST(Failures, AreShownUntilTheyAreCleared) {
  const auto stats = StatsSegment::create({.size = 4});
  const auto view = StatsView::open(stats->file());
  {
    FailureRow one(stats);
    FailureRow two(stats);
    one.show({.operation = Operation::put,
              .peer = 3,
              .code = Code::mismatch,
              .slot = 8,
              .sequence = 21,
              .text = "first"});
    two.show({.operation = Operation::collective, .text = "other"});
    one.show({.operation = Operation::put,
              .peer = 3,
              .code = Code::exhausted,
              .slot = 8,
              .sequence = 22,
              .text = "second"});
    const auto failures = view.failures();
    ASSERT_EQ(failures.size(), 2U);
    EXPECT_EQ(failures[0].text, "second");
    EXPECT_EQ(failures[0].count, 2U);
    EXPECT_EQ(failures[0].code, Code::exhausted);
    EXPECT_EQ(failures[0].peer, 3);
    EXPECT_EQ(failures[0].slot, 8U);
    EXPECT_EQ(failures[0].sequence, 22U);
    EXPECT_LE(failures[0].since_ns, failures[1].since_ns);
    one.clear();
    EXPECT_EQ(view.failures().size(), 1U);
  }
  EXPECT_TRUE(view.failures().empty());
}

TEST(Waits, GoOnUnseenWhenThereIsNoPlace) {
  const auto stats = StatsSegment::create({});
  Recorder recorder(stats->ring_state(), stats->ring(), RecordLevel::control);
  std::array<WaitEntry, 2> two{};
  Waits waits(two, recorder);
  const auto now = Clock::now();
  EXPECT_NE(waits.show({}, now, now), nullptr);
  EXPECT_NE(waits.show({}, now, now), nullptr);
  EXPECT_EQ(waits.show({}, now, now), nullptr);
  waits.end(nullptr, {}, now);
}

TEST(Recorder, OverwritesTheOldestFirst) {
  Ring ring(8);
  auto recorder = ring.recorder(RecordLevel::control);
  for (std::uint64_t n = 0; n < 21; ++n) recorder.control(Event::timeout, 0, 1, n);
  const auto all = ring.last(100);
  EXPECT_EQ(all.begun, 21U);
  EXPECT_EQ(all.overwritten, 13U);
  EXPECT_EQ(all.unreadable, 0U);
  ASSERT_EQ(all.events.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(all.events[i].value, 13 + i);
  const auto few = ring.last(3);
  ASSERT_EQ(few.events.size(), 3U);
  EXPECT_EQ(few.events[0].value, 18U);
}

TEST(Recorder, RecordsWhatItsLevelAsksFor) {
  for (const auto level : {RecordLevel::off, RecordLevel::control, RecordLevel::all}) {
    Ring ring(8);
    auto recorder = ring.recorder(level);
    recorder.control(Event::joined, -1);
    recorder.data(Event::put, 1, 1, 1);
    EXPECT_EQ(ring.last(8).events.size(), static_cast<std::size_t>(level));
  }
}

TEST(Recorder, SkipsARecordThatIsBeingWritten) {
  Ring ring(4);
  auto recorder = ring.recorder(RecordLevel::control);
  for (std::uint64_t n = 0; n < 4; ++n) recorder.control(Event::timeout, 0, 1, n);
  ring.records[2].stamp.store(5);  // as its writer leaves it in the middle
  const auto recording = ring.last(4);
  EXPECT_EQ(recording.unreadable, 1U);
  ASSERT_EQ(recording.events.size(), 3U);
  EXPECT_EQ(recording.events[2].value, 3U);

  // A thread that has lapped that writer does not wait for it, nor write between its words.
  for (std::uint64_t n = 4; n < 8; ++n) recorder.control(Event::timeout, 0, 1, n);
  EXPECT_EQ(ring.state.lost.load(), 1U);
  EXPECT_EQ(ring.records[2].stamp.load(), 5U);
  EXPECT_EQ(ring.last(4).events.size(), 3U);
}

/// Every word of a record follows from one number, so that a mixture of two records shows.
void record(Recorder& recorder, std::uint64_t n) {
  const auto slot = static_cast<std::uint32_t>(n);
  recorder.control(static_cast<Event>(1 + n % 20), static_cast<int>(n % 1000), slot,
                   tests::mix(slot));
}

bool is_whole(const RecordedEvent& event) {
  return event.value == tests::mix(event.slot) &&
         event.event == static_cast<Event>(1 + event.slot % 20) &&
         event.peer == static_cast<int>(event.slot % 1000);
}

TEST(Recorder, NeverShowsATornRecord) {
  constexpr std::uint64_t kEach = 200'000;
  constexpr std::uint64_t kWriters = 4;
  Ring ring(4);  // so small that writers meet a lap apart
  auto recorder = ring.recorder(RecordLevel::control);
  std::atomic<std::uint64_t> writing{kWriters};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < kWriters; ++writer)
    threads.emplace_back([&, writer] {
      for (std::uint64_t n = 0; n < kEach; ++n) record(recorder, writer * kEach + n);
      --writing;
    });
  std::uint64_t seen = 0;
  std::uint64_t torn = 0;
  std::uint64_t disordered = 0;
  while (writing > 0) {
    const auto recording = ring.last(4);
    for (std::size_t i = 0; i < recording.events.size(); ++i) {
      ++seen;
      if (!is_whole(recording.events[i])) ++torn;
      if (i > 0 && recording.events[i].number <= recording.events[i - 1].number) ++disordered;
    }
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(seen, 0U);
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(disordered, 0U);
  for (const auto& event : ring.last(4).events) EXPECT_TRUE(is_whole(event));
  EXPECT_EQ(ring.state.head.load(), kWriters * kEach);
}

}  // namespace
}  // namespace weft::stats
