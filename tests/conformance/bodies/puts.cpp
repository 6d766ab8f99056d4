// Static slots: every size, depth and element type arrives once, whole, in order.
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

/// `bursts` times, puts as many tensors at once as the slot has buffers.
void send_bursts(World& world, const SlotSpec& spec, int bursts) {
  const Check check(world);
  RingEdge edge(world, spec);
  std::vector<Tensor> sources;
  for (std::uint32_t i = 0; i < spec.depth; ++i)
    sources.push_back(allocate_source(world, spec.dtype, spec.shape));
  std::uint64_t put = 0;
  std::uint64_t got = 0;
  for (int burst = 0; burst < bursts; ++burst) {
    std::vector<Request> requests;
    for (const Tensor& source : sources) {
      fill(world, source, pattern_of(world.rank(), 1, ++put));
      requests.push_back(edge.remote.put(source));
    }
    for (std::uint32_t i = 0; i < spec.depth; ++i) {
      const auto arrival = check.ok(edge.slot.wait(), spec.name);
      check.equal(arrival.sequence(), ++got, spec.name + ": sequence");
      check.equal(arrival.tensor().dtype(), spec.dtype, spec.name + ": dtype");
      check.equal(arrival.tensor().shape(), spec.shape, spec.name + ": shape");
      check.holds(arrival.tensor(), pattern_of(previous_of(world), 1, got), spec.name);
    }
    for (Request& request : requests) check.ok(request.wait(), spec.name + ": put");
  }
}

void carries_every_size(World& world) {
  Meeting meeting(world);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{63},
                                   std::int64_t{(64 << 10) + 1}, settings().large})
    for (const std::uint32_t depth : {1U, 4U}) {
      send_bursts(world,
                  {.name = std::to_string(bytes) + " bytes, depth " + std::to_string(depth),
                   .dtype = DType::u8,
                   .shape = {bytes},
                   .depth = depth},
                  bytes == settings().large ? 2 : 12);
      meeting.wait();
    }
}

void carries_every_dtype(World& world) {
  Meeting meeting(world);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::i8, DType::u8, DType::boolean})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 5}, Shape{2, 0, 4}, Shape{2, 3, 4, 5}})
      send_bursts(world,
                  {.name = std::string(name(dtype)) + shape.text(),
                   .dtype = dtype,
                   .shape = shape,
                   .depth = 2},
                  3);
  meeting.wait();
}

/// No rank waits for another, so the test relies on the order within a slot alone.
void keeps_the_order_of_many(World& world) {
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 4U})
    send_bursts(world,
                {.name = "many " + std::to_string(depth),
                 .dtype = DType::i64,
                 .shape = {1},
                 .depth = depth},
                static_cast<int>(static_cast<std::uint32_t>(settings().many) / depth));
  meeting.wait();
}

void carries_synchronously_without_a_credit(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 4U}) {
    const SlotSpec spec{.name = "synchronous " + std::to_string(depth),
                        .shape = {3000},
                        .depth = depth,
                        .flow = Flow::unsafe_synchronous};
    RingEdge edge(world, spec);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 12; ++n) {
      fill(world, source, pattern_of(world.rank(), 2, n));
      check.ok(edge.remote.put(source).wait(), "put");
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 2, n),
                  "tensor");
      meeting.wait();  // the loop that keeps the ranks in step
    }
    for (const EdgeReport& end : world.report().edges)
      if (end.slot == spec.name) check.equal(end.counters.credit_writes, 0U, "credit writes");
    meeting.wait();
  }
}

/// The writer may overwrite the source once the request has ended, however late the owner takes the
/// tensor.
void leaves_the_source_to_the_writer(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const Until until : {Until::reusable, Until::delivered}) {
    const SlotSpec spec{.name = "reused " + std::to_string(static_cast<int>(until)),
                        .dtype = DType::u8,
                        .shape = {10'000},
                        .depth = 4};
    RingEdge edge(world, spec);
    const auto source = allocate_source(world, spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 4; ++n) {
      fill(world, source, pattern_of(world.rank(), 3, n));
      check.ok(edge.remote.put(source, until).wait(), "put");
    }
    fill(world, source, 0);
    meeting.wait();
    for (std::uint64_t n = 1; n <= 4; ++n)
      check.holds(check.ok(edge.slot.wait(), "wait").tensor(), pattern_of(previous_of(world), 3, n),
                  "tensor");
    meeting.wait();
  }
}

void gives_back_credits_in_any_order(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "held", .dtype = DType::u8, .shape = {5000}, .depth = 4};
  RingEdge edge(world, spec);
  const auto source = allocate_source(world, spec.dtype, spec.shape);
  std::uint64_t put = 0;
  std::uint64_t got = 0;
  for (const auto& order :
       {std::vector{3, 1, 0, 2}, std::vector{0, 3, 2, 1}, std::vector{2, 3, 1, 0}}) {
    for (int i = 0; i < 4; ++i) {
      fill(world, source, pattern_of(world.rank(), 4, ++put));
      check.ok(edge.remote.put(source).wait(), "put");
    }
    std::vector<Arrival> held;
    for (int i = 0; i < 4; ++i) {
      held.push_back(check.ok(edge.slot.wait(), "wait"));
      check.equal(held.back().sequence(), ++got, "sequence");
    }
    for (const int i : order) {
      Arrival& arrival = held[static_cast<std::size_t>(i)];
      check.holds(arrival.tensor(), pattern_of(previous_of(world), 4, arrival.sequence()), "held");
      arrival.release();
    }
  }
  meeting.wait();
}

}  // namespace

Bodies put_bodies() {
  return {{"carries_every_size", carries_every_size},
          {"carries_every_dtype", carries_every_dtype},
          {"keeps_the_order_of_many", keeps_the_order_of_many},
          {"carries_synchronously_without_a_credit", carries_synchronously_without_a_credit},
          {"leaves_the_source_to_the_writer", leaves_the_source_to_the_writer},
          {"gives_back_credits_in_any_order", gives_back_credits_in_any_order}};
}

}  // namespace weft::conformance
