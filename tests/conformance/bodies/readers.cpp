// Readers of a published slot who hold versions, are slow, come late or go early.
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;
using tests::pattern_of;

PublishedSpec published_bytes(std::uint32_t depth) {
  return {.name = "model, depth " + std::to_string(depth),
          .dtype = DType::u8,
          .shape = {20'000},
          .depth = depth};
}

/// Whether a view refers to the owner's own memory. Otherwise the view is a copy, and the owner
/// need not wait for it.
bool views_in_place(const World& world, int owner) {
  for (const PathReport& path : world.report().paths)
    if (path.peer == owner) return path.fabric == "shm";
  return false;
}

void holds_several_versions(World& world) {
  const Check check(world);
  Meeting meeting(world);
  PublishedEdge edge(world, published_bytes(5));  // three held, the newest, and one to fill
  std::vector<Arrival> held;
  for (std::uint64_t version = 1; version <= 3; ++version) {
    publish(world, edge.slot, version);
    held.push_back(check.ok(edge.reader.view(), "view"));
    check.equal(held.back().sequence(), version, "version");
    meeting.wait();
  }
  for (std::uint64_t version = 4; version <= 20; ++version) publish(world, edge.slot, version);
  meeting.wait();
  for (const Arrival& arrival : held)
    check.holds(arrival.tensor(), pattern_of(next_of(world), 1, arrival.sequence()), "held");
  held.erase(held.begin() + 1);
  auto newest = check.ok(edge.reader.view(), "view");
  while (newest.sequence() < 20) {
    newest.release();
    newest = check.ok(edge.reader.view(), "view");
  }
  check.holds(newest.tensor(), pattern_of(next_of(world), 1, 20), "newest version");
  meeting.wait();
}

void names_the_slow_reader(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const int slow = world.size() - 1;
  PublishedSlot slot;
  if (world.rank() == 0) slot = world.expose_published(owned(published_bytes(1)));
  auto remote = world.attach_published(0, published_bytes(1));
  meeting.wait();
  if (world.rank() == 0) publish(world, slot, 1);
  auto held = check.ok(remote.view(), "view");
  if (world.rank() != slow) held.release();
  meeting.wait();
  if (world.rank() == 0) {
    const auto next = slot.next(Deadline::after(milliseconds(20)));
    if (views_in_place(world, slow)) {
      const auto detail = check.ends(next.status(), Code::timeout, "next");
      check.equal(detail.peer, slow, "the slow reader named");
      check.equal(detail.slot, published_bytes(1).name, "the slot named");
    } else {
      check.ok(next.status(), "next");
    }
  }
  meeting.wait();
  check.equal(held.operator bool(), world.rank() == slow, "who holds the version");
  if (world.rank() == slow) check.holds(held.tensor(), pattern_of(0, 1, 1), "held version");
  held.release();
  if (world.rank() == 0) publish(world, slot, 2);
  check.holds(check.ok(remote.view(), "view").tensor(), pattern_of(0, 1, 2), "the next version");
  meeting.wait();
}

/// The owner waits for a buffer that a reader holds; meanwhile the reader releases its view and
/// detaches.
void goes_on_without_a_reader_who_left(World& world) {
  const Check check(world);
  Meeting meeting(world);
  PublishedSlot slot;
  if (world.rank() == 0) slot = world.expose_published(owned(published_bytes(1)));
  meeting.wait();
  for (std::uint64_t round = 1; round <= 5; ++round) {
    PublishedReader remote;
    if (world.rank() != 0 || world.size() == 1)
      remote = world.attach_published(0, published_bytes(1));
    meeting.wait();
    if (world.rank() == 0) publish(world, slot, 2 * round - 1);
    if (world.rank() != 0) {
      auto view = check.ok(remote.view(), "view");
      while (view.sequence() != 2 * round - 1) {  // a returning reader sees the last round's
        view.release();
        view = check.ok(remote.view(), "view");
      }
      meeting.wait();
      meeting.pause(std::chrono::microseconds(300 * world.rank()));
      check.holds(view.tensor(), pattern_of(0, 1, 2 * round - 1), "a version being held");
    } else {
      meeting.wait();
      publish(world, slot, 2 * round);
    }
    remote = PublishedReader();
    if (world.rank() == 0)
      check(meeting.soon([&] { return slot.readers() == 0; }), "readers have detached");
    meeting.wait();
  }
}

void shows_the_newest_to_a_late_reader(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 3U}) {
    auto slot = world.expose_published(owned(published_bytes(depth)));
    for (std::uint64_t version = 1; version <= 7; ++version) publish(world, slot, version);
    meeting.wait();
    for (int attached = 0; attached < 2; ++attached) {
      auto remote = world.attach_published(next_of(world), slot.spec().name);
      const auto view = check.ok(remote.view(), "view");
      check.equal(view.sequence(), 7U, "the version that a late reader sees");
      check.holds(view.tensor(), pattern_of(next_of(world), 1, 7), "a late reader's version");
    }
    meeting.wait();
  }
}

/// A view stays whole while it is held, whatever the owner does with the slot.
void keeps_a_view_of_a_closed_slot(World& world) {
  const Check check(world);
  Meeting meeting(world);
  PublishedEdge edge(world, published_bytes(2));
  publish(world, edge.slot, 1);
  auto view = check.ok(edge.reader.view(), "view");
  meeting.wait();
  edge.slot = PublishedSlot();
  auto again = world.expose_published(owned(published_bytes(2)));
  for (std::uint64_t version = 2; version <= 4; ++version) publish(world, again, version);
  meeting.wait();
  check.holds(view.tensor(), pattern_of(next_of(world), 1, 1), "a view of a closed slot");
  view.release();
  check.ends(edge.reader.view().status(), Code::closed, "the next view");
  const auto into = allocate_source(world, DType::u8, {20'000});
  check.ends(edge.reader.get(into), Code::closed, "the next get");
  auto remote = world.attach_published(next_of(world), again.spec().name);
  check.holds(check.ok(remote.view(), "view").tensor(), pattern_of(next_of(world), 1, 4), "newest");
  meeting.wait();
}

}  // namespace

Bodies reader_bodies() {
  return {{"holds_several_versions", holds_several_versions},
          {"names_the_slow_reader", names_the_slow_reader},
          {"goes_on_without_a_reader_who_left", goes_on_without_a_reader_who_left},
          {"shows_the_newest_to_a_late_reader", shows_the_newest_to_a_late_reader},
          {"keeps_a_view_of_a_closed_slot", keeps_a_view_of_a_closed_slot}};
}

}  // namespace weft::conformance
