// Puts without a credit: pending, bounded, cancelled, and seen by waits for several requests.
#include <array>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;
using tests::pattern_of;

void keeps_puts_pending_without_a_credit(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "pending", .dtype = DType::u8, .shape = {1000}, .depth = 2};
  RingEdge edge(world, spec);
  std::vector<Tensor> sources;
  std::vector<Request> requests;
  for (std::uint64_t n = 1; n <= 10; ++n) {
    sources.push_back(allocate_source(world, spec.dtype, spec.shape));
    fill(world, sources.back(), pattern_of(world.rank(), 1, n));
    requests.push_back(edge.remote.put(sources.back()));
  }
  check.ok(requests[0].wait(), "a put with a credit");
  check.ok(requests[1].wait(), "a put with a credit");
  check.ok(requests[1].cancel(), "cancel of a put that has ended");
  const auto detail = check.ends(requests[2].wait(Deadline::after(milliseconds(20))), Code::timeout,
                                 "a put without a credit");
  check.equal(detail.slot, spec.name, "the slot named");
  check.equal(detail.peer, next_of(world), "the rank named");
  check.ends(requests[4].cancel(), Code::cancelled, "cancel of a pending put");
  check.ends(requests[4].wait(), Code::cancelled, "a cancelled put");
  check(requests[4].test(), "a cancelled put has not ended");
  meeting.wait();
  for (std::uint64_t n = 1; n <= 9; ++n) {
    const auto arrival = check.ok(edge.slot.wait(), "wait");
    check.equal(arrival.sequence(), n, "sequence");
    check.holds(arrival.tensor(), pattern_of(previous_of(world), 1, n < 5 ? n : n + 1), "tensor");
  }
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (i != 4) check.ok(requests[i].wait(), "a put that got its credit");
  meeting.wait();
}

/// No thread waits for the requests: the rank's own progress moves the puts.
void moves_pending_puts_by_itself(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "by itself", .dtype = DType::u8, .shape = {100}, .depth = 3};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  fill(world, source, pattern_of(0, 2, 0));
  for (int n = 0; n < 20; ++n) (void)edge.remote.put(source);
  for (std::uint64_t n = 1; n <= 20; ++n)
    check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(0, 2, 0), "tensor");
  meeting.wait();
}

void refuses_more_than_64_pending_puts(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "bounded", .dtype = DType::i64, .shape = {20}};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  std::vector<Request> requests;
  check.ok(edge.remote.put(source).wait(), "a put with a credit");
  for (int n = 0; n < 64; ++n) requests.push_back(edge.remote.put(source));
  const auto refused =
      check.ends(edge.remote.put(source).wait(), Code::exhausted, "one pending put too many");
  check.equal(refused.slot, spec.name, "the slot named");
  meeting.wait();
  for (std::uint64_t n = 1; n <= 65; ++n)
    check.equal(check.ok(edge.slot.wait(), "wait").sequence(), n, "sequence");
  for (Request& request : requests) check.ok(request.wait(), "a pending put");
  meeting.wait();
}

void finds_the_request_that_ended(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge one(world, {.name = "one", .dtype = DType::u8, .shape = {100}});
  RingEdge other(world, {.name = "other", .dtype = DType::u8, .shape = {100}});
  const auto source = allocate_source(world, DType::u8, {100});
  check.ok(one.remote.put(source).wait(), "put");
  check.ok(other.remote.put(source).wait(), "put");
  auto of_one = one.remote.put(source);
  auto of_other = other.remote.put(source);
  const std::array<Request*, 2> requests{&of_one, &of_other};
  check.ends(world.wait_any(requests, Deadline::after(milliseconds(10))).status(), Code::timeout,
             "no request has ended");
  meeting.wait();
  check.ok(other.slot.wait(), "wait").release();
  check.equal(check.ok(world.wait_any(requests), "wait_any"), 1U, "the request that ended");
  meeting.wait();
  check.ok(other.slot.wait(), "wait").release();
  check.ok(one.slot.wait(), "wait").release();
  check.ok(one.slot.wait(), "wait").release();
  check.ok(of_one.wait(), "put");
  meeting.wait();
}

void finds_the_slot_with_an_arrival(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge quiet(world, {.name = "quiet", .dtype = DType::u8, .shape = {100}});
  RingEdge busy(world, {.name = "busy", .dtype = DType::u8, .shape = {100}});
  const auto source = allocate_source(world, DType::u8, {100});
  const std::array<Slot*, 2> slots{&quiet.slot, &busy.slot};
  check.ends(world.wait_any(slots, Deadline::after(milliseconds(5))).status(), Code::timeout,
             "nothing was put");
  meeting.wait();
  for (int n = 0; n < 20; ++n) {
    check.ok(busy.remote.put(source).wait(), "put");
    check.equal(check.ok(world.wait_any(slots), "wait_any"), 1U, "the slot with an arrival");
    check(!quiet.slot.ready(), "a slot that nobody put into is ready");
    check.ok(busy.slot.wait(), "wait").release();
  }
  meeting.wait();
}

}  // namespace

Bodies pending_bodies() {
  return {{"keeps_puts_pending_without_a_credit", keeps_puts_pending_without_a_credit},
          {"moves_pending_puts_by_itself", moves_pending_puts_by_itself},
          {"refuses_more_than_64_pending_puts", refuses_more_than_64_pending_puts},
          {"finds_the_request_that_ended", finds_the_request_that_ended},
          {"finds_the_slot_with_an_arrival", finds_the_slot_with_an_arrival}};
}

}  // namespace weft::conformance
