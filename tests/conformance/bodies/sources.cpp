// Where a put's tensor may lie: at odd places, in several pieces, with strides, outside the arena.
#include <array>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/support/edges.hpp"

namespace weft::conformance {
namespace {

using tests::edge_counters;
using tests::pattern_of;

constexpr std::array kDTypes{DType::f64, DType::f32, DType::f16, DType::bf16,   DType::i64,
                             DType::i32, DType::i8,  DType::u8,  DType::boolean};

/// Puts `parts`, whose concatenated bytes are those of `whole`, and compares what arrives.
void put_and_compare(World& world, RingEdge& edge, std::span<const Tensor> parts,
                     const Tensor& whole, const std::string& what) {
  const Check check(world);
  auto request = parts.size() == 1 ? edge.remote.put(parts.front()) : edge.remote.put(parts);
  const auto arrival = check.ok(edge.slot.wait(), what);
  // Every rank puts the same bytes.
  check(values_of<std::byte>(world, arrival.tensor()) == values_of<std::byte>(world, whole),
        what + ": not what was put");
  check.ok(request.wait(), what);
}

/// Requires that no put into the slot was packed first. A GPU copies dense tensors alone.
void copies_nothing(World& world, const std::string& slot) {
  if (settings().ends.owner.is_gpu()) return;
  const Check check(world);
  check.equal(edge_counters(world, slot, Role::puts).bytes_copied, 0U, "bytes copied");
}

void puts_from_odd_places(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const DType dtype : kDTypes)
    for (const std::int64_t elements : {1, 63, 4097}) {
      const SlotSpec spec{.name = std::string(name(dtype)) + Shape{elements}.text(),
                          .dtype = dtype,
                          .shape = {elements},
                          .depth = 2};
      RingEdge edge(world, spec);
      const auto large = allocate_source(world, dtype, {elements + 8});
      for (const std::int64_t first : {1, 3, 7}) {
        const auto part = large.part(first, spec.shape);
        fill(world, part, pattern_of(0, 1, static_cast<std::uint64_t>(first)));
        put_and_compare(world, edge, std::span(&part, 1), part, spec.name);
      }
      copies_nothing(world, spec.name);
    }
  meeting.wait();
}

void gathers_parts(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "gathered", .dtype = DType::i32, .shape = {100, 31}, .depth = 2};
  RingEdge edge(world, spec);
  const auto whole = allocate_source(world, spec.dtype, spec.shape);
  for (std::uint64_t n = 1; n <= 6; ++n) {
    fill(world, whole, pattern_of(0, 2, n));
    const auto far = allocate_source(world, spec.dtype, {1001});
    set_values(world, far, values_of<std::int32_t>(world, whole.part(999, {1001})));
    const std::vector<Tensor> parts{whole.part(0, {1}), whole.part(1, {0, 5}),
                                    whole.part(1, {2, 499}), far, whole.part(2000, {1100})};
    put_and_compare(world, edge, parts, whole, "gathered");
  }
  copies_nothing(world, spec.name);
  check.equal(edge_counters(world, "gathered", Role::puts).transfers, 6U, "transfers");
  meeting.wait();
}

/// The elements of a slice, copied to contiguous memory.
Tensor packed(World& world, const Tensor& slice) {
  const auto dense = world.allocate(slice.dtype(), slice.shape());
  auto to = dense.as<std::uint8_t>().begin();
  for_each_run(slice, [&](const std::byte* from, std::size_t bytes) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(from);
    to = std::copy(first, first + bytes, to);
  });
  return dense;
}

void puts_strided_tensors(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const DType dtype : kDTypes) {
    const auto wide = world.allocate(dtype, {6, 10, 9});  // GPU tensors have no strides
    fill(world, wide, pattern_of(0, 3, 1));
    for (const Tensor& slice : {wide.slice(2, 3, 4), wide.slice(1, 1, 7), wide.slice(0, 2, 3),
                                wide.slice(2, 8, 1).slice(0, 1, 5), wide.slice(1, 4, 0)}) {
      const SlotSpec spec{.name = slice.text(), .dtype = dtype, .shape = slice.shape()};
      RingEdge edge(world, spec);
      put_and_compare(world, edge, std::span(&slice, 1), packed(world, slice), spec.name);
      copies_nothing(world, spec.name);
    }
  }
  meeting.wait();
}

void stages_memory_outside_the_arena(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "outside", .dtype = DType::u8, .shape = {7001}, .depth = 2};
  RingEdge edge(world, spec);
  std::vector<std::uint8_t> own(7010);
  for (std::uint64_t n = 1; n <= 5; ++n) {
    const auto outside = Tensor::wrap(own.data() + n, spec.dtype, spec.shape);
    fill(world, outside, pattern_of(0, 4, n));
    put_and_compare(world, edge, std::span(&outside, 1), outside, "outside");
  }
  const auto counters = edge_counters(world, "outside", Role::puts);
  // `>=`, since a put that a full queue rejected is staged again.
  check(counters.bytes_copied >= 5U * 7001, "bytes that were copied were not counted");
  check.equal(counters.transfers, 5U, "transfers");
  meeting.wait();
}

/// The moment its put has ended, a source may be written; however it travels, what arrives is what
/// was put.
void gives_large_sources_back_once_they_are_read(World& world) {
  constexpr std::uint64_t kPuts = 6;
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "large", .dtype = DType::f32, .shape = {400, 601}, .depth = 2};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  const auto put = [&](std::uint64_t n) {
    fill(world, source, pattern_of(world.rank(), 5, n));
    return edge.remote.put(source);
  };
  auto request = put(1);
  for (std::uint64_t n = 1; n <= kPuts; ++n) {
    const auto arrival = check.ok(edge.slot.wait(), "large");
    if (n < kPuts && request.test()) {
      check.ok(request.wait(), "put");
      request = put(n + 1);
    } else {
      check.ok(request.wait(), "put");
      fill(world, source, pattern_of(world.rank(), 6, n));  // never to arrive
      if (n < kPuts) request = put(n + 1);
    }
    check.holds(arrival.tensor(), pattern_of(previous_of(world), 5, n), "large");
  }
  meeting.wait();
}

}  // namespace

Bodies source_bodies() {
  return {
      {"puts_from_odd_places", puts_from_odd_places},
      {"gathers_parts", gathers_parts},
      {"puts_strided_tensors", puts_strided_tensors},
      {"stages_memory_outside_the_arena", stages_memory_outside_the_arena},
      {"gives_large_sources_back_once_they_are_read", gives_large_sources_back_once_they_are_read}};
}

}  // namespace weft::conformance
