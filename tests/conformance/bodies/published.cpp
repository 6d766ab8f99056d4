// Published slots: one writer, the owner; every reader sees whole versions, in order.
#include <algorithm>
#include <array>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/support/edges.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;
using tests::edge_counters;
using tests::pattern_of;

PublishedSpec published(std::uint32_t depth, Flow flow = Flow::credits) {
  return {.name = "model, depth " + std::to_string(depth),
          .dtype = DType::f32,
          .shape = {30, 100},
          .depth = depth,
          .flow = flow};
}

/// Every rank publishes, and reads what every rank publishes. Versions may be passed over; none is
/// torn, none comes twice, the last one comes.
void shows_whole_versions_to_all(World& world) {
  constexpr std::uint64_t kVersions = 25;
  const Check check(world);
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 2U, 4U}) {
    auto slot = world.expose_published(owned(published(depth)));
    std::vector<PublishedReader> remotes;
    for (int peer = 0; peer < world.size(); ++peer)
      remotes.push_back(world.attach_published(peer, published(depth)));
    std::vector<std::uint64_t> seen(remotes.size(), 0);
    const auto look = [&](std::size_t peer, Deadline deadline) {
      const auto view = remotes[peer].view(deadline);
      if (view.code() == Code::timeout) return;
      check.ok(view.status(), "view");
      check(view->sequence() > seen[peer], "a version came twice");
      seen[peer] = view->sequence();
      check.holds(view->tensor(), pattern_of(static_cast<int>(peer), 1, seen[peer]), "version");
    };
    meeting.wait();
    check.equal(slot.readers(), world.size(), "readers");
    for (std::uint64_t version = 1; version <= kVersions; ++version) {
      publish(world, slot, version);
      for (std::size_t peer = 0; peer < remotes.size(); ++peer)
        look(peer, Deadline::after(std::chrono::microseconds(version % 3 == 0 ? 100 : 0)));
    }
    for (std::size_t peer = 0; peer < remotes.size(); ++peer)
      while (seen[peer] < kVersions) look(peer, {});
    check(!remotes[0].ready(), "ready, and there is no newer version");
    meeting.wait();
  }
}

/// The owner publishes on and on while others read: a large version is whole, or is read again.
void shows_whole_large_versions_to_a_slow_reader(World& world) {
  constexpr std::uint64_t kVersions = 16;
  const Check check(world);
  Meeting meeting(world);
  const PublishedSpec spec{
      .name = "large model", .dtype = DType::f32, .shape = {3, 50'000}, .depth = 2};
  PublishedEdge edge(world, spec);
  std::uint64_t seen = 0;
  const auto look = [&](Deadline deadline) {
    const auto view = edge.reader.view(deadline);
    if (view.code() == Code::timeout) return;
    check.ok(view.status(), "view");
    check(view->sequence() > seen, "a version came twice");
    seen = view->sequence();
    check.holds(view->tensor(), pattern_of(next_of(world), 1, seen), "large version");
  };
  for (std::uint64_t version = 1; version <= kVersions; ++version) {
    publish(world, edge.slot, version);
    if (version % 2 == 0) look(Deadline::after(milliseconds(2)));
  }
  while (seen < kVersions) look({});
  meeting.wait();
}

/// The loop keeps the ranks in step, so nothing is exchanged and nothing is passed over.
void shows_every_version_of_a_synchronous_loop(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = published(1, Flow::unsafe_synchronous);
  PublishedEdge edge(world, spec);
  const auto into = allocate_source(world, spec.dtype, spec.shape);
  for (std::uint64_t version = 1; version <= 16; ++version) {
    publish(world, edge.slot, version);
    if (version % 2 == 0) {
      check.ok(edge.reader.get(into), "get");
      check.holds(into, pattern_of(next_of(world), 1, version), "version got");
    } else {
      const auto view = check.ok(edge.reader.view(), "view");
      check.equal(view.sequence(), version, "version");
      check.holds(view.tensor(), pattern_of(next_of(world), 1, version), "version viewed");
    }
    meeting.wait();
  }
}

void gets_whole_runs_and_strides(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = published(2);
  PublishedEdge edge(world, spec);
  const auto expected = world.allocate(spec.dtype, spec.shape);
  const auto step = [&](std::uint64_t version) {
    meeting.wait();
    fill(world, expected, pattern_of(next_of(world), 1, version));
    publish(world, edge.slot, version);
  };
  step(1);
  const auto into = allocate_source(world, spec.dtype, spec.shape);
  check.ok(edge.reader.get(into), "get");
  check.holds(into, pattern_of(next_of(world), 1, 1), "get of the whole");
  check.ends(edge.reader.get(into, Deadline::after(milliseconds(5))), Code::timeout,
             "there is nothing newer");
  step(2);
  std::array<std::uint32_t, 1> first{};
  std::array<std::uint32_t, 1250> middle{};
  std::array<std::uint32_t, 7> last{};
  const std::array runs{SlotRun{2993, 7, reinterpret_cast<std::byte*>(last.data())},
                        SlotRun{0, 1, reinterpret_cast<std::byte*>(first.data())},
                        SlotRun{100, 0, nullptr},
                        SlotRun{111, 1250, reinterpret_cast<std::byte*>(middle.data())}};
  check.ok(edge.reader.get(runs), "get of runs");
  const auto bits = expected.as<std::uint8_t>();
  const auto same = [&](const auto& got, std::size_t from) {
    const auto bytes = std::as_bytes(std::span(got));
    return std::ranges::equal(bytes, std::as_bytes(bits).subspan(from * 4, bytes.size()));
  };
  check(same(first, 0) && same(middle, 111) && same(last, 2993), "a run is not what it should be");
  step(3);
  const auto wide = world.allocate(spec.dtype, {30, 130});  // GPU tensors have no strides
  fill(world, wide, 0);
  const auto kept = world.allocate(spec.dtype, {30, 130});
  fill(world, kept, 0);
  check.ok(edge.reader.get(wide.slice(1, 17, 100)), "get with strides");
  for (std::int64_t row = 0; row < 30; ++row) {
    const auto bytes = [&](const Tensor& of, std::int64_t at, std::int64_t count) {
      return of.part(at, {count}).as<std::uint8_t>();
    };
    check(std::ranges::equal(bytes(wide, row * 130 + 17, 100), bytes(expected, row * 100, 100)),
          "a row got with strides is not what it should be");
    check(std::ranges::equal(bytes(wide, row * 130 + 117, 13), bytes(kept, row * 130 + 117, 13)),
          "a get with strides wrote between its rows");
  }
  meeting.wait();
}

/// A reader that needs a part views it alone: as a part of the whole slot, or packed.
void views_runs(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const Flow flow : {Flow::credits, Flow::unsafe_synchronous}) {
    auto spec = published(1, flow);
    if (flow != Flow::credits) spec.name += ", synchronous";
    PublishedEdge edge(world, spec);
    const auto expected = world.allocate(spec.dtype, spec.shape);
    const std::array runs{SlotRun{0, 1, nullptr}, SlotRun{100, 0, nullptr},
                          SlotRun{111, 1250, nullptr}, SlotRun{2993, 7, nullptr}};
    for (std::uint64_t version = 1; version <= 6; ++version) {
      publish(world, edge.slot, version);
      const std::uint64_t before = edge_counters(world, spec.name, Role::views).bytes_moved;
      if (version % 3 == 0) {
        const auto none = check.ok(edge.reader.view(std::span<const SlotRun>()), "view of no runs");
        check.equal(none.sequence(), version, "version passed over");
        check.equal(edge_counters(world, spec.name, Role::views).bytes_moved, before, "bytes");
        check(!edge.reader.ready(), "a version that was passed over counts as seen");
        meeting.wait();
        continue;
      }
      fill(world, expected, pattern_of(next_of(world), 1, version));
      {
        const auto view = check.ok(edge.reader.view(runs), "view of runs");
        check.equal(view.sequence(), version, "version");
        const bool is_whole = view.tensor().shape() == spec.shape;
        check(is_whole || view.tensor().shape() == Shape{1258}, "shape of the runs");
        const std::uint64_t moved =
            edge_counters(world, spec.name, Role::views).bytes_moved - before;
        check.equal(moved, std::uint64_t{is_whole ? 0U : 1258U * 4U}, "bytes moved");
        std::int64_t at = 0;
        for (const SlotRun& run : runs) {
          const auto part = [&](const Tensor& of, std::int64_t first) {
            return of.part(first, {run.count}).as<std::uint8_t>();
          };
          const bool same = std::ranges::equal(
              std::as_bytes(std::span(view.tensor().data() + (is_whole ? run.first : at) * 4,
                                      static_cast<std::size_t>(run.count) * 4)),
              std::as_bytes(part(expected, run.first)));
          check(same, "a run viewed is not what it should be");
          at += run.count;
        }
      }
      meeting.wait();
    }
    const std::array descending{SlotRun{10, 5, nullptr}, SlotRun{14, 5, nullptr}};
    check.ends(edge.reader.view(descending).status(), Code::bad_argument, "runs that overlap");
    const std::array outside{SlotRun{2999, 2, nullptr}};
    check.ends(edge.reader.view(outside).status(), Code::bad_argument, "a run outside");
    const std::array targeted{SlotRun{0, 1, expected.data()}};
    check.ends(edge.reader.view(targeted).status(), Code::bad_argument, "a run with a target");
    meeting.wait();
  }
}

void publishes_to_nobody(World& world) {
  const Check check(world);
  Meeting meeting(world);
  auto slot = world.expose_published(owned(published(2)));
  for (std::uint64_t version = 1; version <= 10; ++version) publish(world, slot, version);
  check.equal(slot.readers(), 0, "readers");
  meeting.wait();
}

void finds_the_slot_with_a_new_version(World& world) {
  const Check check(world);
  Meeting meeting(world);
  auto slot = world.expose_published(owned(published(2)));
  std::vector<PublishedReader> remotes;
  std::vector<PublishedReader*> all;
  for (int peer = 0; peer < world.size(); ++peer)
    remotes.push_back(world.attach_published(peer, slot.spec().name));
  for (PublishedReader& remote : remotes) all.push_back(&remote);
  meeting.wait();
  check.ends(world.wait_any(all, Deadline::after(milliseconds(5))).status(), Code::timeout,
             "nothing was published");
  for (int turn = 0; turn < world.size(); ++turn) {
    meeting.wait();
    if (turn == world.rank()) publish(world, slot, 1);
    const auto found = check.ok(world.wait_any(all), "wait_any");
    check.equal(found, static_cast<std::size_t>(turn), "the slot with a new version");
    check.holds(check.ok(remotes[found].view(), "view").tensor(), pattern_of(turn, 1, 1), "value");
  }
  meeting.wait();
}

}  // namespace

Bodies published_bodies() {
  return {
      {"shows_whole_versions_to_all", shows_whole_versions_to_all},
      {"shows_every_version_of_a_synchronous_loop", shows_every_version_of_a_synchronous_loop},
      {"shows_whole_large_versions_to_a_slow_reader", shows_whole_large_versions_to_a_slow_reader},
      {"gets_whole_runs_and_strides", gets_whole_runs_and_strides},
      {"views_runs", views_runs},
      {"publishes_to_nobody", publishes_to_nobody},
      {"finds_the_slot_with_a_new_version", finds_the_slot_with_a_new_version}};
}

}  // namespace weft::conformance
