// Attaching: again, by another rank, too early, or given up.
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using tests::mix;
using tests::pattern_of;

void goes_on_where_it_was_after_attaching_again(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "again", .dtype = DType::u8, .shape = {700}, .depth = 4};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  std::uint64_t put = 0;
  std::uint64_t got = 0;
  const auto send = [&](int count) {
    for (int i = 0; i < count; ++i) {
      fill(world, source, pattern_of(world.rank(), 1, ++put));
      check.ok(edge.remote.put(source).wait(), "put");
    }
  };
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto arrival = check.ok(edge.slot.wait(), "wait");
      check.equal(arrival.sequence(), ++got, "sequence");
      check.holds(arrival.tensor(), pattern_of(previous_of(world), 1, got), "tensor");
    }
  };
  for (int round = 0; round < 10; ++round) {
    send(3);
    if (round % 2 == 0) take(3);
    edge.remote = RemoteSlot();
    edge.remote = world.attach(next_of(world), spec);
    send(1);
    take(round % 2 == 0 ? 1 : 4);
  }
  meeting.wait();
}

/// One slot, written by every rank in turn.
void passes_from_writer_to_writer(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "passed on", .dtype = DType::f32, .shape = {900}, .depth = 3};
  Slot slot;
  if (world.rank() == 0) slot = world.expose(owned(spec));
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  for (std::uint64_t round = 0; round < 2; ++round)
    for (int writer = 0; writer < world.size(); ++writer) {
      if (writer == world.rank()) {
        RemoteSlot remote;
        // The previous writer has detached, but its message takes time to arrive.
        check(meeting.soon([&] {
          try {
            remote = world.attach(0, spec);
            return true;
          } catch (const Error& error) {
            check.equal(name(error.code()), name(Code::writer_taken), error.what());
            return false;
          }
        }),
              "the slot was never free");
        fill(world, source, pattern_of(writer, 2, round));
        check.ok(remote.put(source).wait(), "put");
      }
      meeting.wait();
      if (world.rank() != 0) continue;
      const auto arrival = check.ok(slot.wait(), "wait");
      check.equal(
          arrival.sequence(),
          round * static_cast<std::uint64_t>(world.size()) + static_cast<std::uint64_t>(writer) + 1,
          "sequence");
      check.holds(arrival.tensor(), pattern_of(writer, 2, round), "tensor");
    }
  meeting.wait();
}

void takes_back_an_attach_that_is_given_up(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "too early", .dtype = DType::u8, .shape = {100}};
  const auto late = check.throws(
      Code::timeout, [&] { world.attach(next_of(world), spec, Deadline::after(milliseconds(10))); },
      "attach to a slot that is not exposed");
  check.equal(late.slot, spec.name, "the slot named");
  check.equal(late.peer, next_of(world), "the owner named");
  meeting.wait();
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  check.ok(edge.remote.put(source).wait(), "put");
  check.ok(edge.slot.wait(), "wait").release();
  meeting.wait();
}

/// An attach may be given up while the owner grants it: the attachment must be free for the next
/// attempt.
void survives_attaches_given_up_at_any_moment(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (std::uint64_t round = 0; round < (kSanitized ? 20 : 60); ++round) {
    const SlotSpec spec{
        .name = "race " + std::to_string(round), .dtype = DType::u8, .shape = {100}};
    const auto random = [&](int which) {
      return microseconds(mix(settings().seed ^ pattern_of(world.rank(), which, round)) % 300);
    };
    // In half of the rounds the slot exists before the attach; in the others it is exposed
    // meanwhile.
    Slot slot;
    if (round % 2 == 0) slot = world.expose(owned(spec));
    RemoteSlot remote;
    for (int attempt = 0; attempt < 2; ++attempt) try {
        remote = world.attach(next_of(world), spec, Deadline::after(random(attempt)));
        break;
      } catch (const Error& error) {
        check.equal(name(error.code()), name(Code::timeout), error.what());
      }
    remote = RemoteSlot();
    if (round % 2 == 1) slot = world.expose(owned(spec));
    remote = world.attach(next_of(world), spec);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    fill(world, source, pattern_of(world.rank(), 3, round));
    check.ok(remote.put(source).wait(), "put");
    check.holds(check.ok(slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 3, round),
                "tensor");
    meeting.wait();
  }
}

}  // namespace

Bodies attach_bodies() {
  return {
      {"goes_on_where_it_was_after_attaching_again", goes_on_where_it_was_after_attaching_again},
      {"passes_from_writer_to_writer", passes_from_writer_to_writer},
      {"takes_back_an_attach_that_is_given_up", takes_back_an_attach_that_is_given_up},
      {"survives_attaches_given_up_at_any_moment", survives_attaches_given_up_at_any_moment}};
}

}  // namespace weft::conformance
