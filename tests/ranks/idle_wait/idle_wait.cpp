// A blocked rank uses almost no processor time: rank 0 waits for an arrival, rank 1 for a credit,
// neither of which comes, and neither rank may use 2 % of a core, its progress thread included.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Ten seconds in the full run, three in the quick one.
std::chrono::seconds blocked_time() {
  return std::chrono::seconds(std::getenv("WEFT_TEST_FULL") != nullptr ? 10 : 3);
}

template <typename Wait>
void expect_idle(Checks& checks, Wait&& wait) {
  const auto before = cpu_seconds();
  const Status status = wait(Deadline::after(blocked_time()));
  const auto share =
      (cpu_seconds() - before) / std::chrono::duration<double>(blocked_time()).count();
  checks.expect(status.code() == Code::timeout, "nothing should have come: " + status.text());
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the other rank began a little later
  checks.expect(share < 0.02, "blocked, it used " + std::to_string(100 * share) + " % of a core");
}

void block(World& world, Checks& checks) {
  const SlotSpec spec{.name = "full", .dtype = DType::u8, .shape = {64}, .depth = 1};
  const SlotSpec silent{.name = "silent", .dtype = DType::u8, .shape = {64}, .depth = 1};
  if (world.rank() == 0) {
    auto full = world.expose(spec);
    auto nothing = world.expose(silent);
    expect_idle(checks, [&](Deadline deadline) { return nothing.wait(deadline).status(); });
    for (int n = 0; n < 2; ++n) full.wait().status().or_throw();
  } else {
    auto remote = world.attach(0, spec);
    auto idle = world.attach(0, silent);
    const auto tensor = world.allocate(spec.dtype, spec.shape);
    remote.put(tensor).wait().or_throw();
    auto pending = remote.put(tensor);
    expect_idle(checks, [&](Deadline deadline) { return pending.wait(deadline); });
    pending.wait().or_throw();
  }
}

}  // namespace

int main() { return weft::tests::run_as_rank(block); }
