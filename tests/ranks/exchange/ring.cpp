// Every rank puts into a slot of the next one, for several sizes, and checks what the previous one
// put. With one rank, the rank puts into its own slot.
#include <string>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;
using weft::tests::fill;
using weft::tests::holds;
using weft::tests::pattern_of;

void go_round(World& world, Checks& checks, const SlotSpec& spec, std::uint64_t rounds) {
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  auto slot = world.expose(spec);
  auto remote = world.attach(next, spec);
  const auto tensor = world.allocate(spec.dtype, spec.shape);
  for (std::uint64_t n = 1; n <= rounds; ++n) {
    fill(tensor, pattern_of(world.rank(), 0, n));
    remote.put(tensor).wait().or_throw();
    const auto arrival = slot.wait().value();
    checks.expect(arrival.sequence() == n, spec.name + ": the sequence has a gap");
    checks.expect(holds(arrival.tensor(), pattern_of(previous, 0, n)),
                  spec.name + ": tensor " + std::to_string(n) + " is not the one that was put");
  }
}

}  // namespace

int main() {
  return weft::tests::run_as_rank([](World& world, Checks& checks) {
    for (const std::int64_t bytes : {8, 57, 4096, 1 << 20})
      for (const std::uint32_t depth : {1U, 4U})
        go_round(world, checks,
                 {.name = std::to_string(bytes) + " bytes, depth " + std::to_string(depth),
                  .dtype = DType::u8,
                  .shape = {bytes},
                  .depth = depth},
                 bytes > 4096 ? 10 : 100);
  });
}
