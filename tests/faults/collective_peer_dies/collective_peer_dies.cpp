// One of four ranks that call a collective again and again, small and large. The last rank dies
// after MILLISECONDS. The pending calls of the others fail with its name, and so do their later
// calls; a group without the dead rank goes on.
//   collective_peer_dies KIND MILLISECONDS
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/ranks/checks.hpp"
#include "weft/collective.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;

constexpr int kVictim = 3;
constexpr int kRanks = 4;

Call call_of(std::string_view kind, World& world, std::int64_t count) {
  const auto make = [&](std::int64_t elements) { return world.allocate(DType::f32, {elements}); };
  const Tensor part = make(count);
  const Tensor whole = make(count * kRanks);
  if (kind == "broadcast") return broadcast(part, 0);
  if (kind == "reduce") return reduce(part, make(count), Reduction::sum, 1);
  if (kind == "all_reduce") return all_reduce(part, Reduction::sum);
  if (kind == "reduce_scatter") return reduce_scatter(whole, part, Reduction::sum);
  if (kind == "all_gather") return all_gather(part, whole);
  if (kind == "gather") return gather(part, whole, 1);
  if (kind == "scatter") return scatter(whole, part, 1);
  if (kind == "all_to_all") return all_to_all(whole, make(count * kRanks));
  if (kind == "scan") return scan(part, make(count), Reduction::sum);
  return barrier();
}

void die_after(int milliseconds) {
  std::signal(SIGALRM, [](int) { ::kill(::getpid(), SIGKILL); });
  itimerval when{};
  when.it_value.tv_usec = milliseconds * 1000;
  ::setitimer(ITIMER_REAL, &when, nullptr);
}

void go_on_until_it_dies(World& world, std::string_view kind, int milliseconds, Checks& checks) {
  Collectives group = Collectives::open(world);
  Plan plans[] = {group.plan(call_of(kind, world, 10)), group.plan(call_of(kind, world, 100'000))};
  if (world.rank() == kVictim) die_after(milliseconds);
  Status status;
  for (int i = 0; status.ok(); ++i) status = plans[i % 2].run();
  checks.expect(status.code() == Code::peer_failed && status.detail().peer == kVictim,
                "under way: " + status.text());
  status = group.run(barrier());
  checks.expect(status.code() == Code::peer_failed, "afterwards: " + status.text());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return tests::run_as_survivor([&](World& world, Checks& checks) {
    go_on_until_it_dies(world, argv[1], std::atoi(argv[2]), checks);
    Collectives rest = Collectives::open(world, std::array{0, 1, 2});
    const Tensor one = world.allocate(DType::i32, {1});
    one.as<std::int32_t>()[0] = 1;
    rest.run(all_reduce(one, Reduction::sum)).or_throw();
    checks.expect(one.as<std::int32_t>()[0] == kVictim, "the others' sum is wrong");
  });
}
