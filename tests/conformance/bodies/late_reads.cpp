// Readers whose deadlines are much shorter than a transfer, and who call again and again.
#include <algorithm>
#include <array>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

constexpr std::int64_t kBytes = 400'000;
constexpr std::uint64_t kMine = 77;
const PublishedSpec kSpec{.name = "large", .dtype = DType::u8, .shape = {kBytes}, .depth = 4};

Deadline at_once() { return Deadline::after(std::chrono::microseconds(1)); }

/// Whether a get that timed out may still write into the caller's memory.
bool lends_memory(const World& world) {
  if (settings().ends.other.is_gpu()) return true;
  for (const PathReport& path : world.report().paths)
    if (path.peer == next_of(world))
      return path.fabric != "shm" && path.fabric != "tcp" && path.fabric != "sim";
  return true;
}

/// Repeats a call that ends in time until it succeeds.
template <typename Call>
void repeat(const Check& check, Meeting& meeting, const Call& call, std::string_view what) {
  const bool ended = meeting.soon([&] {
    const Status status = call();
    if (status.code() == Code::timeout) return false;
    check.ok(status, what);
    return true;
  });
  check(ended, what);
}

void ends_though_each_call_times_out(World& world) {
  const Check check(world);
  Meeting meeting(world);
  PublishedEdge edge(world, kSpec);
  const int owner = next_of(world);
  const auto into = allocate_source(world, DType::u8, {kBytes});
  const auto other = world.allocate(DType::u8, {kBytes});
  publish(world, edge.slot, 1);
  meeting.wait();
  Arrival view;
  repeat(
      check, meeting,
      [&] {
        auto viewed = edge.reader.view(at_once());
        if (viewed.ok()) view = *std::move(viewed);
        return viewed.status();
      },
      "a view, again and again");
  check.equal(view.sequence(), 1U, "version viewed");
  check.holds(view.tensor(), pattern_of(owner, 1, 1), "version viewed");
  view.release();
  const bool is_lent = lends_memory(world);
  for (int round = 0; round < 2; ++round) {
    edge.reader.see_again();
    repeat(
        check, meeting,
        [&] {
          Status status = edge.reader.get(into, at_once());
          if (status.ok() || is_lent) return status;
          fill(world, into, kMine);
          meeting.pause(std::chrono::microseconds(100));
          check.holds(into, kMine, "memory that nothing is being got into");
          return status;
        },
        "a get, again and again");
    check.holds(into, pattern_of(owner, 1, 1), "version got");
  }
  // One read is given up for another.
  edge.reader.see_again();
  (void)edge.reader.get(into, at_once());
  edge.reader.see_again();
  fill(world, other, kMine);
  constexpr std::int64_t kFirst = 1000;
  const std::array runs{SlotRun{0, kFirst, other.data()},
                        SlotRun{kBytes / 2, kBytes / 2, other.data() + kBytes / 2}};
  repeat(
      check, meeting, [&] { return edge.reader.get(runs, at_once()); }, "runs, again and again");
  const auto whole = world.allocate(DType::u8, {kBytes});
  fill(world, whole, pattern_of(owner, 1, 1));
  check(std::equal(whole.data() + kBytes / 2, whole.data() + kBytes, other.data() + kBytes / 2) &&
            std::equal(whole.data(), whole.data() + kFirst, other.data()),
        "the runs hold the version");
  meeting.wait();
}

void ends_while_its_owner_publishes(World& world) {
  constexpr std::uint64_t kVersions = 20;
  constexpr int kCallsEach = 16;
  const Check check(world);
  Meeting meeting(world);
  PublishedEdge edge(world, kSpec);
  const auto into = allocate_source(world, DType::u8, {kBytes});
  std::uint64_t version = 1;
  publish(world, edge.slot, version);
  meeting.wait();
  std::uint64_t seen = 0;
  int calls = 0;
  repeat(
      check, meeting,
      [&] {
        if (++calls % kCallsEach == 0 && version < kVersions) publish(world, edge.slot, ++version);
        auto view = edge.reader.view(at_once());
        if (!view.ok()) return view.status();
        check(view->sequence() > seen, "a version came twice");
        seen = view->sequence();
        check.holds(view->tensor(), pattern_of(next_of(world), 1, seen), "version viewed");
        return Status();
      },
      "a view of one of many versions");
  while (version < kVersions) publish(world, edge.slot, ++version);
  meeting.wait();
  if (seen == kVersions) edge.reader.see_again();
  // The news of the last version may come after the meeting. A read is of one whole version until
  // then, whatever was published meanwhile.
  std::uint64_t got = 0;
  repeat(
      check, meeting,
      [&] {
        Status status = edge.reader.get(into, at_once());
        if (!status.ok()) return status;
        got = 0;
        for (std::uint64_t whole = seen; whole <= kVersions && got == 0; ++whole)
          if (holds(world, into, pattern_of(next_of(world), 1, whole))) got = whole;
        check(got > 0, "a get is of one whole version");
        check(got > seen || got == kVersions, "a version came twice");
        seen = got;
        return got == kVersions ? status : Status(ErrorDetail{.code = Code::timeout});
      },
      "a get of the newest");
  meeting.wait();
}

}  // namespace

Bodies late_read_bodies() {
  return {{"ends_though_each_call_times_out", ends_though_each_call_times_out},
          {"ends_while_its_owner_publishes", ends_while_its_owner_publishes}};
}

}  // namespace weft::conformance
