// Memory that the user owns, as a put's source and as a slot's buffers: the bytes are right on
// every path of the fabric, and weft gives the memory back once it no longer needs it.
#include <array>
#include <memory>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

/// Memory that lives until weft releases it.
class Owned {
 public:
  Owned(World& world, std::int64_t skipped, const Shape& shape) {
    auto bytes = std::make_shared<std::vector<std::uint8_t>>(
        static_cast<std::size_t>(skipped + shape.elements()));
    watch_ = bytes;
    void* first = bytes->data() + skipped;
    tensor = world.adopt(std::shared_ptr<void>(std::move(bytes), first), DType::u8, shape);
  }
  bool given_back() const { return watch_.expired(); }

  Tensor tensor;

 private:
  std::weak_ptr<std::vector<std::uint8_t>> watch_;
};

void puts_from_adopted_memory(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const auto placement : {Placement::fixed, Placement::dynamic})
    for (const std::int64_t bytes : {1, 63, 70'001}) {
      const SlotSpec spec{
          .name = std::to_string(bytes) + (placement == Placement::fixed ? " fixed" : " dynamic"),
          .dtype = DType::u8,
          .shape = {bytes},
          .depth = 2,
          .placement = placement};
      RingEdge edge(world, spec);
      for (std::uint64_t n = 1; n <= 4; ++n) {
        Owned own(world, static_cast<std::int64_t>(n), spec.shape);
        fill(world, own.tensor, pattern_of(world.rank(), 1, n));
        auto request = edge.remote.put(own.tensor);
        own.tensor = {};
        check.holds(check.ok(edge.slot.wait(), "wait").tensor(),
                    pattern_of(previous_of(world), 1, n), spec.name);
        check.ok(request.wait(), "put");
        check(meeting.soon([&] { return own.given_back(); }), "the memory is not given back");
      }
    }
  meeting.wait();
}

void gathers_from_memory_of_all_sorts(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const SlotSpec spec{.name = "sorts", .dtype = DType::u8, .shape = {900}, .depth = 2};
  RingEdge edge(world, spec);
  const Owned own(world, 3, {30, 20});
  const auto arena = world.allocate(DType::u8, {300});
  const auto whole = world.allocate(DType::u8, {900});
  for (std::uint64_t n = 1; n <= 5; ++n) {
    fill(world, own.tensor, pattern_of(0, 2, n));
    fill(world, arena, pattern_of(0, 3, n));
    // Half of every adopted row, all of the arena's, then the other halves.
    const std::array parts{own.tensor.slice(1, 0, 10), arena, own.tensor.slice(1, 10, 10)};
    auto to = whole.as<std::uint8_t>().begin();
    for (const Tensor& part : parts)
      for_each_run(part, [&](const std::byte* from, std::size_t bytes) {
        to = std::copy_n(reinterpret_cast<const std::uint8_t*>(from), bytes, to);
      });
    auto request = edge.remote.put(parts);
    const auto arrival = check.ok(edge.slot.wait(), "wait");
    check(values_of<std::byte>(world, arrival.tensor()) == values_of<std::byte>(world, whole),
          "not what was gathered");
    check.ok(request.wait(), "put");
  }
  meeting.wait();
}

void takes_puts_into_adopted_memory(World& world) {
  const Check check(world);
  Meeting meeting(world);
  for (const std::uint32_t depth : {1U, 3U}) {
    const SlotSpec spec{.name = "in adopted memory, depth " + std::to_string(depth),
                        .dtype = DType::u8,
                        .shape = {5001},
                        .depth = depth};
    Owned own(world, 5, {depth, 5001});
    auto slot = world.expose(spec, own.tensor);
    auto remote = world.attach(next_of(world), spec);
    const auto source = world.allocate(spec.dtype, spec.shape);
    for (std::uint64_t n = 1; n <= 10; ++n) {
      fill(world, source, pattern_of(world.rank(), 4, n));
      check.ok(remote.put(source).wait(), "put");
      const auto arrival = check.ok(slot.wait(), "wait");
      const auto at = static_cast<std::ptrdiff_t>((n - 1) % depth * 5001);
      check(arrival.tensor().data() == own.tensor.data() + at, "it arrived elsewhere");
      check.holds(arrival.tensor(), pattern_of(previous_of(world), 4, n), spec.name);
    }
    meeting.wait();
    slot = Slot();
    own.tensor = {};
    check(meeting.soon([&] { return own.given_back(); }), "the memory is not given back");
    meeting.wait();
  }
}

}  // namespace

Bodies adopted_bodies() {
  return {{"puts_from_adopted_memory", puts_from_adopted_memory},
          {"gathers_from_memory_of_all_sorts", gathers_from_memory_of_all_sorts},
          {"takes_puts_into_adopted_memory", takes_puts_into_adopted_memory}};
}

}  // namespace weft::conformance
