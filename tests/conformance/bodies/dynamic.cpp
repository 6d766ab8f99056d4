// Dynamic slots: the shape is free each time, the owner makes room and reads.
#include <deque>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/support/edges.hpp"

namespace weft::conformance {
namespace {

using std::chrono::milliseconds;
using tests::edge_counters;
using tests::mix;
using tests::pattern_of;

SlotSpec dynamic(const std::string& name, DType dtype, const Shape& dims, std::uint32_t depth) {
  return {
      .name = name, .dtype = dtype, .shape = dims, .depth = depth, .placement = Placement::dynamic};
}

/// Sizes that follow from rank and number; some have no elements.
Shape shape_of(int rank, std::uint64_t n, std::size_t dims) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < dims; ++i) {
    const auto random = mix(pattern_of(rank, static_cast<int>(i), n));
    sizes.push_back(static_cast<std::int64_t>(random % (i == 0 ? 900 : 6)));
  }
  return Shape(sizes);
}

void send_shapes(World& world, const SlotSpec& spec, std::uint64_t tensors) {
  const Check check(world);
  RingEdge edge(world, spec);
  const std::size_t dims = spec.shape.dims();
  std::deque<Request> requests;
  for (std::uint64_t n = 1; n <= tensors; ++n) {
    const auto tensor = allocate_source(world, spec.dtype, shape_of(world.rank(), n, dims));
    fill(world, tensor, pattern_of(world.rank(), 1, n));
    // The handle is dropped: weft keeps what the owner has not read.
    requests.push_back(edge.remote.put(tensor));
    const auto arrival = check.ok(edge.slot.wait(), spec.name);
    check.equal(arrival.sequence(), n, spec.name + ": sequence");
    check.equal(arrival.tensor().dtype(), spec.dtype, spec.name + ": dtype");
    check.equal(arrival.tensor().shape(), shape_of(previous_of(world), n, dims),
                spec.name + ": shape");
    check.holds(arrival.tensor(), pattern_of(previous_of(world), 1, n), spec.name);
    if (requests.size() < 5) continue;
    check.ok(requests.front().wait(), spec.name + ": put");
    requests.pop_front();
  }
  for (Request& request : requests) check.ok(request.wait(), spec.name + ": put");
}

void brings_every_shape(World& world) {
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 4U, 32U})
    for (const Shape& dims : {Shape{}, Shape{0}, Shape{0, 0}, Shape{0, 0, 0, 0}})
      send_shapes(world,
                  dynamic("depth " + std::to_string(depth) + dims.text(), DType::f32, dims, depth),
                  20);
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i8,
                            DType::u8, DType::boolean})
    send_shapes(world, dynamic(std::string(name(dtype)), dtype, {0, 0}, 2), 8);
  meeting.wait();
}

/// The writer's arena and the owner's grow by chunks that the other rank does not know yet.
void grows_with_large_tensors(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = dynamic("large", DType::u8, {0}, 2);
  RingEdge edge(world, spec);
  std::vector<Tensor> kept;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    kept.push_back(
        allocate_source(world, spec.dtype, {settings().large + static_cast<std::int64_t>(n)}));
    fill(world, kept.back(), pattern_of(world.rank(), 2, n));
    auto request = edge.remote.put(kept.back());
    const auto arrival = check.ok(edge.slot.wait(), "wait");
    check.holds(arrival.tensor(), pattern_of(previous_of(world), 2, n), "large");
    check.ok(request.wait(), "put");
  }
  meeting.wait();
}

void packs_what_an_owner_cannot_read(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = dynamic("packed", DType::i32, {0, 0}, 2);
  RingEdge edge(world, spec);
  std::vector<std::int32_t> own(40);
  const auto outside = Tensor::wrap(own.data(), spec.dtype, {4, 10});
  fill(world, outside, pattern_of(world.rank(), 3, 1));
  auto request = edge.remote.put(outside);
  check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 3, 1),
              "memory of the user's own");
  check.ok(request.wait(), "put");
  // `>=`, since a put that a full queue rejected is packed again.
  const auto copied = [&] { return edge_counters(world, "packed", Role::puts).bytes_copied; };
  check(copied() >= 160, "bytes that were copied were not counted");
  const auto wide = world.allocate(spec.dtype, {3, 5});  // GPU tensors have no strides
  for (int i = 0; i < 15; ++i) wide.as<std::int32_t>()[static_cast<std::size_t>(i)] = i;
  request = edge.remote.put(wide.slice(1, 1, 2));
  const auto slice = check.ok(edge.slot.wait(), "wait");
  check.equal(slice.tensor().shape(), Shape({3, 2}), "shape of a slice");
  const auto elements = values_of<std::int32_t>(world, slice.tensor());
  check.equal(elements[0], 1, "first element of a slice");
  check.equal(elements[5], 12, "last element of a slice");
  check.ok(request.wait(), "put");
  check(copied() >= 184, "bytes that were packed were not counted");
  meeting.wait();
}

/// A put of a dynamic slot lends its tensor until the owner has read it.
void lends_until_the_owner_has_read(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = dynamic("lent", DType::u8, {0}, 4);
  RingEdge edge(world, spec);
  const auto tensor = allocate_source(world, spec.dtype, {5000});
  fill(world, tensor, pattern_of(world.rank(), 4, 1));
  auto request = edge.remote.put(tensor);
  const auto late =
      check.ends(request.wait(Deadline::after(milliseconds(10))), Code::timeout, "nobody reads");
  check.equal(late.slot, spec.name, "the slot named");
  check.equal(late.peer, next_of(world), "the rank named");
  check.equal(late.sequence_expected, 1U, "the tensor that is not read yet");
  check.ends(request.cancel(), Code::bad_argument, "an announced tensor can't be taken back");
  meeting.wait();
  const auto arrival = check.ok(edge.slot.wait(), "wait");
  check.holds(arrival.tensor(), pattern_of(previous_of(world), 4, 1), "tensor");
  check.ok(request.wait(), "put");
  meeting.wait();
}

void keeps_arrivals_by_their_handles(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = dynamic("kept", DType::u8, {0}, 2);
  std::vector<Tensor> kept;
  std::vector<Arrival> held;
  RingEdge edge(world, spec);
  for (std::uint64_t n = 1; n <= 8; ++n) {
    const auto tensor = allocate_source(world, spec.dtype, {1000});
    fill(world, tensor, pattern_of(world.rank(), 5, n));
    auto request = edge.remote.put(tensor);
    held.push_back(check.ok(edge.slot.wait(), "wait"));
    kept.push_back(held.back().tensor());
    check.ok(request.wait(), "put");
  }
  std::swap(held[0], held[6]);
  held.erase(held.begin() + 1, held.begin() + 5);
  for (std::uint64_t n = 1; n <= 8; ++n)
    check.holds(kept[n - 1], pattern_of(previous_of(world), 5, n), "a kept tensor");
  for (const Arrival& arrival : held)
    check.holds(arrival.tensor(), pattern_of(previous_of(world), 5, arrival.sequence()), "held");
  held.clear();
  meeting.wait();
}

void reads_what_a_writer_left_behind(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const auto spec = dynamic("left", DType::u8, {0}, 4);
  RingEdge edge(world, spec);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    const auto tensor = allocate_source(world, spec.dtype, {3000});
    fill(world, tensor, pattern_of(world.rank(), 6, n));
    // cancel() removes a put that is still pending, so repeat until the put was announced.
    Code outcome = Code::cancelled;
    while (outcome == Code::cancelled) {
      auto request = edge.remote.put(tensor);
      (void)request.wait(Deadline::after(milliseconds(1)));
      outcome = request.cancel().code();
    }
    check.equal(name(outcome), name(Code::bad_argument), "cancel of an announced tensor");
  }
  edge.remote = RemoteSlot();
  // Memory that is allocated now must not overlap the memory that the owner will read.
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(allocate_source(world, spec.dtype, {3000}));
    fill(world, others.back(), 0);
  }
  meeting.wait();
  for (std::uint64_t n = 1; n <= 3; ++n)
    check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 6, n),
                "what the writer left");
  meeting.wait();
}

void ends_puts_into_a_closed_slot(World& world) {
  const Check check(world);
  Meeting meeting(world);
  RingEdge edge(world, dynamic("closing", DType::u8, {0}, 2));
  std::vector<Request> requests;
  for (int n = 0; n < 4; ++n)
    requests.push_back(edge.remote.put(allocate_source(world, DType::u8, {100})));
  meeting.wait();
  edge.slot = Slot();
  for (Request& request : requests) check.ends(request.wait(), Code::closed, "a closed slot");
  meeting.wait();
}

}  // namespace

Bodies dynamic_bodies() {
  return {{"brings_every_shape", brings_every_shape},
          {"grows_with_large_tensors", grows_with_large_tensors},
          {"packs_what_an_owner_cannot_read", packs_what_an_owner_cannot_read},
          {"lends_until_the_owner_has_read", lends_until_the_owner_has_read},
          {"keeps_arrivals_by_their_handles", keeps_arrivals_by_their_handles},
          {"reads_what_a_writer_left_behind", reads_what_a_writer_left_behind},
          {"ends_puts_into_a_closed_slot", ends_puts_into_a_closed_slot}};
}

}  // namespace weft::conformance
