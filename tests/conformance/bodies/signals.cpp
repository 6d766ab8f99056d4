// Signals: one word sums up what all ranks add, and a put's tensor is there before its signal.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "weft/signal.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

constexpr std::uint64_t kTimes = 20;

/// Every rank adds to rank 0's signal, rank 0 included, and gets values that no other rank gets.
void count_in_every_ranks_adds(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Signal signal;
  if (world.rank() == 0) signal = Signal::expose(world, "count", 100);
  RemoteSignal remote = RemoteSignal::attach(world, 0, "count");
  check.equal(remote.owner(), 0, "owner");
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    check.ok(remote.add(1), "add");
    const std::uint64_t got = check.ok(remote.fetch_add(2), "fetch_add");
    check(got > before && got >= 100, "the value went back");
    before = got;
  }
  const std::uint64_t all = 100 + 3 * kTimes * static_cast<std::uint64_t>(world.size());
  if (world.rank() == 0) {
    check.equal(check.ok(signal.wait_at_least(all), "wait"), all, "the sum");
    const auto late = check.ends(
        signal.wait_at_least(all + 1, Deadline::after(std::chrono::milliseconds(2))).status(),
        Code::timeout, "nobody adds any more");
    check.equal(late.sequence_seen, all, "the value seen");
    check(late.peer >= 0, "no rank is named that may add: " + late.message);
  }
  meeting.wait();
}

/// The ranks take turns by compare and swap alone.
void count_in_by_compare_and_swap(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Signal signal;
  if (world.rank() == 0) signal = Signal::expose(world, "swap");
  RemoteSignal remote = RemoteSignal::attach(world, 0, "swap");
  for (int i = 0; i < 10; ++i) {
    std::uint64_t seen = 0;
    for (;;) {
      const std::uint64_t before = check.ok(remote.compare_swap(seen, seen + 1), "compare_swap");
      if (before == seen) break;
      seen = before;
    }
  }
  meeting.wait();
  if (world.rank() == 0)
    check.equal(signal.value(), 10 * static_cast<std::uint64_t>(world.size()), "the count");
  meeting.wait();
}

/// The owner polls the signal alone.
void count_in_a_put_once_it_is_there(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "signalled", .dtype = DType::u8, .shape = {3000}, .depth = 4};
  RingEdge edge(world, spec);
  Signal signal = Signal::expose(world, "arrived");
  RemoteSignal remote = RemoteSignal::attach(world, next_of(world), "arrived");
  const Tensor source = world.allocate(spec.dtype, spec.shape);
  for (std::uint64_t n = 1; n <= 12; ++n) {
    fill(world, source, pattern_of(world.rank(), 5, n));
    check.ok(remote.put(edge.remote, source, 1), "put");
    check.equal(check.ok(signal.wait_at_least(n), "wait"), n, "the signal");
    check(edge.slot.ready(), "the signal came before the tensor");
    check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 5, n),
                "tensor");
    meeting.wait();
  }
}

void count_in_nothing_once_closed(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Signal signal = Signal::expose(world, "closing", 7);
  check.throws(
      Code::duplicate_name, [&] { (void)Signal::expose(world, "closing"); }, "a second one");
  RemoteSignal remote = RemoteSignal::attach(world, next_of(world), "closing");
  check.equal(check.ok(remote.fetch_add(0), "fetch_add"), 7U, "the value");
  meeting.wait();
  signal = Signal();
  meeting.wait();
  check.ends(remote.fetch_add(1).status(), Code::closed, "an add to a closed signal");
  meeting.wait();
  // The name is free again, and now stands for another word.
  Signal again = Signal::expose(world, "closing", 1);
  RemoteSignal to_again = RemoteSignal::attach(world, next_of(world), "closing");
  check.equal(check.ok(to_again.fetch_add(1), "fetch_add"), 1U, "the new value");
  check.throws(
      Code::timeout,
      [&] {
        (void)RemoteSignal::attach(world, next_of(world), "nowhere",
                                   Deadline::after(std::chrono::milliseconds(2)));
      },
      "a signal that nobody exposes");
  meeting.wait();
}

}  // namespace

Bodies signal_bodies() {
  return {{"count_in_every_ranks_adds", count_in_every_ranks_adds},
          {"count_in_by_compare_and_swap", count_in_by_compare_and_swap},
          {"count_in_a_put_once_it_is_there", count_in_a_put_once_it_is_there},
          {"count_in_nothing_once_closed", count_in_nothing_once_closed}};
}

}  // namespace weft::conformance
