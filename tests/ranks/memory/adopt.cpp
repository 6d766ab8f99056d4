// Memory that the user adopted, between two processes: adopt [staged]. The kernel copies where that
// is allowed; otherwise weft stages and counts the bytes. The tensors are the same.
#include <cstring>
#include <string>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using tests::Checks;
using tests::pattern_of;

constexpr std::int64_t kElements = 100'003;
constexpr std::uint64_t kTensors = 40;

std::uint64_t copied(const World& world, const std::string& slot) {
  std::uint64_t bytes = 0;
  for (const auto& edge : world.report().edges)
    if (edge.slot == slot) bytes += edge.counters.bytes_copied;
  return bytes;
}

/// malloc'd memory at an odd address.
Tensor adopt_unaligned(World& world, std::int64_t elements) {
  auto* memory = static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(elements) + 1));
  return world.adopt(memory, DType::u8, {elements + 1}, [memory] { std::free(memory); })
      .part(1, {elements});
}

void expect_copies(World& world, Checks& checks, const std::string& slot, bool staged) {
  const std::uint64_t bytes = copied(world, slot);
  checks.expect((bytes > 0) == staged, slot + ": " + std::to_string(bytes) + " bytes were copied");
}

/// The slot's buffers are the owner's own memory.
void into_adopted(World& world, Checks& checks, bool staged) {
  const SlotSpec spec{.name = "into", .dtype = DType::u8, .shape = {kElements}, .depth = 2};
  if (world.rank() == 0) {
    auto slot = world.expose(spec, adopt_unaligned(world, 2 * kElements));
    for (std::uint64_t n = 1; n <= kTensors; ++n)
      checks.expect(tests::holds(slot.wait().value().tensor(), pattern_of(1, 0, n)),
                    "into: tensor " + std::to_string(n) + " is wrong");
    expect_copies(world, checks, "into", staged);
  } else {
    auto remote = world.attach(0, spec);
    const auto tensor = world.allocate(spec.dtype, {kElements});
    for (std::uint64_t n = 1; n <= kTensors; ++n) {
      tests::fill(tensor, pattern_of(1, 0, n));
      if (n % 2 == 0) {
        const std::vector<Tensor> parts = {tensor.part(0, {10'000}),
                                           tensor.part(10'000, {kElements - 10'000})};
        remote.put(parts).wait().or_throw();
      } else {
        remote.put(tensor).wait().or_throw();
      }
    }
  }
}

/// The owner reads the writer's own memory.
void out_of_adopted(World& world, Checks& checks, bool staged) {
  const SlotSpec spec{
      .name = "out", .dtype = DType::u8, .shape = {0}, .depth = 2, .placement = Placement::dynamic};
  if (world.rank() == 0) {
    auto slot = world.expose(spec);
    for (std::uint64_t n = 1; n <= kTensors; ++n)
      checks.expect(tests::holds(slot.wait().value().tensor(), pattern_of(1, 1, n)),
                    "out: tensor " + std::to_string(n) + " is wrong");
  } else {
    auto remote = world.attach(0, spec);
    for (std::uint64_t n = 1; n <= kTensors; ++n) {
      const auto tensor = adopt_unaligned(world, kElements + static_cast<std::int64_t>(n));
      tests::fill(tensor, pattern_of(1, 1, n));
      remote.put(tensor).wait().or_throw();
    }
    expect_copies(world, checks, "out", staged);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool staged = argc == 2 && std::string(argv[1]) == "staged";
  return tests::run_as_rank([&](World& world, Checks& checks) {
    into_adopted(world, checks, staged);
    out_of_adopted(world, checks, staged);
  });
}
