// Slots that are closed: the writer is told, late puts hit no other memory, and other slots are not
// affected.
#include <optional>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using tests::mix;
using tests::pattern_of;

void tells_the_writer_of_a_closed_slot(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "closing", .dtype = DType::u8, .shape = {1000}};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  check.ok(edge.remote.put(source).wait(), "put");
  std::vector<Request> pending;
  for (int n = 0; n < 3; ++n) pending.push_back(edge.remote.put(source));
  meeting.wait();
  edge.slot = Slot();
  for (Request& request : pending) {
    const auto closed = check.ends(request.wait(), Code::closed, "a pending put");
    check.equal(closed.slot, spec.name, "the slot named");
    check.equal(closed.peer, next_of(world), "the owner named");
  }
  check.ends(edge.remote.put(source).wait(), Code::closed, "the next put");
  meeting.wait();
}

/// Writers put without a break while the owners close their slots, half of the ranks at a time, and
/// reuse memory of the same size.
void keeps_late_puts_from_other_tensors(World& world) {
  const Check check(world);
  Meeting meeting(world);
  SlotSpec spec{.name = "late",
                .dtype = DType::u8,
                .shape = {8000},
                .depth = 4,
                .flow = Flow::unsafe_synchronous};
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  fill(world, source, pattern_of(world.rank(), 1, 0));
  for (std::uint64_t round = 1; round <= 40; ++round) {
    spec.name = "late " + std::to_string(round);
    RingEdge edge(world, spec);
    const auto closing = [&](int rank) {
      return world.size() == 1 || rank % 2 == static_cast<int>(round % 2);
    };
    std::vector<Tensor> others;
    meeting.wait();
    if (closing(world.rank())) {
      meeting.pause(std::chrono::microseconds(mix(round) % 50));
      edge.slot = Slot();
      for (std::uint64_t i = 0; i < 8; ++i) {
        others.push_back(allocate_own(world, spec.dtype, {4 * 8000}));
        fill(world, others.back(), pattern_of(world.rank(), 2, round * 10 + i));
      }
    } else if (closing(next_of(world))) {
      Status last;
      const auto told = [&] { return !(last = edge.remote.put(source).wait()).ok(); };
      for (int n = 0; n < 500 && !told(); ++n) continue;
      check(!last.ok() || meeting.soon(told), "the writer was never told");
      check.ends(last, Code::closed, "a put into a closed slot");
    }
    meeting.wait();
    for (std::uint64_t i = 0; i < others.size(); ++i)
      check.holds(others[i], pattern_of(world.rank(), 2, round * 10 + i), "another tensor");
    meeting.wait();
  }
}

void exposes_a_name_again(World& world) {
  const Check check(world);
  Meeting meeting(world);
  std::optional<RingEdge> old;
  for (std::int64_t round = 1; round <= 6; ++round) {
    const SlotSpec spec{.name = "again",
                        .dtype = round % 2 == 0 ? DType::i32 : DType::f64,
                        .shape = {round * 40},
                        .depth = static_cast<std::uint32_t>(round)};
    if (old) old->slot = Slot();
    meeting.wait();
    RingEdge edge(world, spec);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    fill(world, source, pattern_of(world.rank(), 3, static_cast<std::uint64_t>(round)));
    check.ok(edge.remote.put(source).wait(), "put");
    const auto arrival = check.ok(edge.slot.wait(), "wait");
    check.equal(arrival.sequence(), 1U, "the new slot's first sequence");
    check.holds(arrival.tensor(),
                pattern_of(previous_of(world), 3, static_cast<std::uint64_t>(round)), "tensor");
    if (old) {
      const auto stale = allocate_source(world, old->remote.spec().dtype, old->remote.spec().shape);
      check.ends(old->remote.put(stale).wait(), Code::closed, "a put by the old end");
    }
    meeting.wait();
    old.emplace(std::move(edge));
  }
  old.reset();
  meeting.wait();
}

void comes_and_goes_beside_traffic(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge steady(world, {.name = "steady", .dtype = DType::u8, .shape = {3000}, .depth = 2});
  const auto source = allocate_source(world, DType::u8, {3000});
  for (std::uint64_t n = 1; n <= 30; ++n) {
    fill(world, source, pattern_of(world.rank(), 4, n));
    check.ok(steady.remote.put(source).wait(), "steady put");
    {
      const SlotSpec passing{.name = "passing " + std::to_string(n),
                             .dtype = DType::i64,
                             .shape = {static_cast<std::int64_t>(n)},
                             .placement = n % 3 == 0 ? Placement::dynamic : Placement::fixed};
      RingEdge edge(world, passing);
      const auto tensor = allocate_source(world, passing.dtype, passing.shape);
      fill(world, tensor, pattern_of(world.rank(), 5, n));
      auto request = edge.remote.put(tensor);
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 5, n),
                  "passing tensor");
      check.ok(request.wait(), "passing put");
    }
    check.holds(check.ok(steady.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 4, n),
                "steady tensor");
  }
  meeting.wait();
}

/// Both ends drop all handles at once, with operations under way.
void drops_everything_at_once(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (std::uint64_t round = 1; round <= 8; ++round) {
    const auto text = std::to_string(round);
    std::vector<RingEdge> edges;
    for (const auto placement : {Placement::fixed, Placement::dynamic})
      edges.emplace_back(world, SlotSpec{.name = text + (placement == Placement::fixed ? "f" : "d"),
                                         .dtype = DType::u8,
                                         .shape = {2000},
                                         .depth = 2,
                                         .placement = placement});
    meeting.wait();
    for (RingEdge& edge : edges)
      for (std::uint64_t n = 0; n < mix(round) % 5; ++n)
        (void)edge.remote.put(allocate_source(world, DType::u8, {2000}));
    if (round % 2 == 0)
      for (RingEdge& edge : edges) edge.slot = Slot();
  }
  meeting.wait();
}

}  // namespace

Bodies teardown_bodies() {
  return {{"tells_the_writer_of_a_closed_slot", tells_the_writer_of_a_closed_slot},
          {"keeps_late_puts_from_other_tensors", keeps_late_puts_from_other_tensors},
          {"exposes_a_name_again", exposes_a_name_again},
          {"comes_and_goes_beside_traffic", comes_and_goes_beside_traffic},
          {"drops_everything_at_once", drops_everything_at_once}};
}

}  // namespace weft::conformance
