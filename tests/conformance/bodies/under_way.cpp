// Puts that go on after their call: their source stays unchanged until they have ended, and is free
// then, even if the slot is closed meanwhile.
#include <array>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

void takes_a_source_again_once_its_put_has_ended(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const std::int64_t bytes : {8, 40, 9000}) {
    const SlotSpec spec{
        .name = "again " + std::to_string(bytes), .dtype = DType::u8, .shape = {bytes}, .depth = 3};
    RingEdge edge(world, spec);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 12; ++n) {
      fill(world, source, pattern_of(world.rank(), 1, n));
      check.ok(edge.remote.put(source).wait(), "put");
      fill(world, source, 0);
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 1, n),
                  spec.name);
    }
  }
  meeting.wait();
}

void has_as_many_under_way_as_the_slot_is_deep(World& world) {
  constexpr std::uint32_t kDepth = 128;
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "deep", .dtype = DType::u8, .shape = {700}, .depth = kDepth};
  RingEdge edge(world, spec);
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<Request> requests;
    for (std::uint64_t n = 1; n <= kDepth; ++n) {
      const auto source = allocate_source(world, spec.dtype, spec.shape);  // the put alone keeps it
      fill(world, source, pattern_of(world.rank(), 2, round * kDepth + n));
      requests.push_back(edge.remote.put(source));
      // The credits of the round before may still be on their way; the first round needs none.
      while (round > 0 && requests.back().test() &&
             requests.back().wait().code() == Code::exhausted) {
        meeting.pause(std::chrono::microseconds(200));
        requests.back() = edge.remote.put(source);
      }
    }
    for (std::uint64_t n = 1; n <= kDepth; ++n)
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(),
                  pattern_of(previous_of(world), 2, round * kDepth + n), spec.name);
    for (Request& request : requests) check.ok(request.wait(), "put");
    for (Request& request : requests) check(request.test(), "a put that ended goes on");
    meeting.wait();
  }
  meeting.wait();
}

/// A put whose tensor a GPU copies is pending until then, and goes with its end.
void keeps_what_is_put_when_its_end_goes(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (std::uint64_t round = 1; round <= 4; ++round) {
    const SlotSpec spec{
        .name = "goes " + std::to_string(round), .dtype = DType::u8, .shape = {5000}, .depth = 4};
    RingEdge edge(world, spec);
    RingEdge facts(world,
                   {.name = "put " + std::to_string(round), .dtype = DType::i64, .shape = {1}});
    std::vector<Request> requests;
    for (std::uint64_t n = 1; n <= spec.depth; ++n) {
      const auto source = allocate_source(world, spec.dtype, spec.shape);
      fill(world, source, pattern_of(world.rank(), round, n));
      requests.push_back(edge.remote.put(source));
    }
    // Cancel the puts that a busy fabric has not taken yet: they would end with the remote slot.
    while (requests.back().cancel().code() == Code::cancelled) {
      requests.pop_back();
      if (requests.empty()) break;
    }
    edge.remote = RemoteSlot();
    const auto put = allocate_source(world, DType::i64, {1});
    set_values(world, put, std::vector{static_cast<std::int64_t>(requests.size())});
    check.ok(facts.remote.put(put).wait(), "put");
    const auto were_put = static_cast<std::uint64_t>(
        values_of<std::int64_t>(world, check.ok(facts.slot.wait(), "wait").tensor())[0]);
    const auto other = allocate_source(world, spec.dtype, spec.shape);  // perhaps where one was
    fill(world, other, 0);
    for (std::uint64_t n = 1; n <= were_put; ++n)
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(),
                  pattern_of(previous_of(world), round, n), "what was put");
    meeting.wait();
  }
}

void ends_requests_whose_slot_is_closed(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (int round = 0; round < 4; ++round) {
    const SlotSpec spec{
        .name = "closed " + std::to_string(round), .dtype = DType::u8, .shape = {3000}, .depth = 2};
    RingEdge edge(world, spec);
    meeting.wait();
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    std::vector<Request> requests;
    for (int n = 0; n < 4; ++n) requests.push_back(edge.remote.put(source, Until::delivered));
    edge.slot = Slot();
    for (std::size_t n = 0; n < requests.size(); ++n) {
      const Status status = requests[n].wait();
      // A busy fabric may not have taken even the first put.
      if (!status.ok() || n >= spec.depth) check.ends(status, Code::closed, "put");
    }
    meeting.wait();
  }
}

void shows_the_owner_what_was_delivered(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "delivered", .dtype = DType::u8, .shape = {20'000}, .depth = 2};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  for (std::uint64_t n = 1; n <= 6; ++n) {
    fill(world, source, pattern_of(world.rank(), 3, n));
    check.ok(edge.remote.put(source, Until::delivered).wait(), "put");
    meeting.wait();
    check(edge.slot.ready(), "a tensor that was delivered is not there");
    check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 3, n),
                spec.name);
    meeting.wait();
  }
}

/// Several puts at once from memory of all kinds, without waiting for the previous put.
void reads_each_put_from_its_own_place(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "places", .dtype = DType::u8, .shape = {60, 50}, .depth = 4};
  RingEdge edge(world, spec);
  const auto dense = [&] { return world.allocate(spec.dtype, spec.shape); };
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::array<std::vector<std::uint8_t>, 4> outside;
    std::vector<Request> requests;
    for (std::uint64_t n = 0; n < 4; ++n) {
      const auto pattern = pattern_of(world.rank(), round, n);
      if (n % 2 == 0) {  // staged
        outside[n].resize(3000);
        const auto source = Tensor::wrap(outside[n].data(), spec.dtype, spec.shape);
        fill(world, source, pattern);
        requests.push_back(edge.remote.put(source));
      } else {  // gathered, of rows of a wider tensor
        const auto whole = dense();
        fill(world, whole, pattern);
        const auto wide = world.allocate(spec.dtype, {60, 70});  // GPU tensors have no strides
        const auto rows = wide.slice(1, 7, 50);
        std::size_t at = 0;
        for_each_run(rows, [&](std::byte* to, std::size_t bytes) {
          std::copy_n(whole.data() + at, bytes, to);
          at += bytes;
        });
        const std::array parts{rows.slice(0, 0, 20), rows.slice(0, 20, 40)};
        requests.push_back(edge.remote.put(parts));
      }
    }
    for (std::size_t n = 0; n < requests.size(); ++n) {
      check.ok(requests[n].wait(), "put");
      std::ranges::fill(outside[n], std::uint8_t{0});
    }
    for (std::uint64_t n = 0; n < 4; ++n)
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(),
                  pattern_of(previous_of(world), round, n), "a put from another place");
  }
  meeting.wait();
}

void gets_into_any_memory(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const PublishedSpec spec{.name = "into", .dtype = DType::u8, .shape = {4000}, .depth = 2};
  PublishedEdge edge(world, spec);
  for (std::uint64_t n = 1; n <= 4; ++n) {
    fill(world, check.ok(edge.slot.next(), "next"), pattern_of(world.rank(), 4, n));
    check.ok(edge.slot.publish(), "publish");
    std::vector<std::uint8_t> own(4003);
    const auto into = Tensor::wrap(own.data() + n % 3, spec.dtype, spec.shape);
    if (n % 2 == 0) {
      check.ok(edge.reader.get(into), "get");
    } else {  // half of it by way of the arena
      const auto half = world.allocate(spec.dtype, {2000});
      const std::array<SlotRun, 3> runs{
          {{0, 1000, into.data()}, {1000, 2000, half.data()}, {3000, 1000, into.data() + 3000}}};
      check.ok(edge.reader.get(runs), "get");
      std::copy_n(half.data(), 2000, into.data() + 1000);
    }
    check.holds(into, pattern_of(next_of(world), 4, n), "what was got");
    meeting.wait();
  }
}

/// The allocator of a dynamic slot gives memory of its own.
void reads_dynamic_tensors_into_any_memory(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{
      .name = "any", .dtype = DType::u8, .shape = {0}, .depth = 2, .placement = Placement::dynamic};
  RingEdge edge(world, spec);
  std::vector<std::uint8_t> own(9001);
  edge.slot.allocate_with(
      [&](DType dtype, const Shape& shape) { return Tensor::wrap(own.data() + 1, dtype, shape); });
  for (const std::int64_t bytes : {1, 64, 9000}) {
    const auto source = allocate_source(world, spec.dtype, {bytes});
    fill(world, source, pattern_of(world.rank(), 5, static_cast<std::uint64_t>(bytes)));
    auto request = edge.remote.put(source);
    const auto arrival = check.ok(edge.slot.wait(), "wait");
    check(arrival.tensor().data() == reinterpret_cast<std::byte*>(own.data() + 1), "elsewhere");
    check.holds(arrival.tensor(),
                pattern_of(previous_of(world), 5, static_cast<std::uint64_t>(bytes)), spec.name);
    check.ok(request.wait(), "put");
  }
  meeting.wait();
}

void puts_by_a_chosen_queue_pair(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const std::int64_t bytes : {8, 5000, 3 << 20}) {
    const SlotSpec spec{.name = "chosen " + std::to_string(bytes),
                        .dtype = DType::u8,
                        .shape = {bytes},
                        .depth = 2};
    RingEdge edge(world, spec);
    const int last = edge.remote.queue_pairs() - 1;
    check(last >= 0, "no queue pair");
    check.throws(
        Code::bad_argument, [&] { edge.remote.use_queue_pair(last + 1); }, "one too many");
    edge.remote.use_queue_pair(last);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 5; ++n) {
      fill(world, source, pattern_of(world.rank(), 6, n));
      auto request = edge.remote.put(source);
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 6, n),
                  spec.name);
      check.ok(request.wait(), "put");
    }
    check.throws(
        Code::bad_argument, [&] { edge.remote.use_queue_pair(0); }, "after a put");
  }
  meeting.wait();
}

}  // namespace

Bodies under_way_bodies() {
  return {
      {"takes_a_source_again_once_its_put_has_ended", takes_a_source_again_once_its_put_has_ended},
      {"has_as_many_under_way_as_the_slot_is_deep", has_as_many_under_way_as_the_slot_is_deep},
      {.name = "keeps_what_is_put_when_its_end_goes",
       .run = keeps_what_is_put_when_its_end_goes,
       .is_of_host_memory = true},
      {"ends_requests_whose_slot_is_closed", ends_requests_whose_slot_is_closed},
      {"shows_the_owner_what_was_delivered", shows_the_owner_what_was_delivered},
      {"reads_each_put_from_its_own_place", reads_each_put_from_its_own_place},
      {"puts_by_a_chosen_queue_pair", puts_by_a_chosen_queue_pair},
      {"gets_into_any_memory", gets_into_any_memory},
      {"reads_dynamic_tensors_into_any_memory", reads_dynamic_tensors_into_any_memory}};
}

}  // namespace weft::conformance
