// Ranks that are joined by several connections die one after another. The connections of a dead
// rank end one by one, and yet the others get the one news that counts: it has failed.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/ranks/checks.hpp"
#include "weft/error.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;

/// The end of an attach to a slot that the victim exposes never.
Status end_of_attach(World& world, int victim) {
  try {
    (void)world.attach(victim, {.name = "none", .dtype = DType::f32, .shape = {4}},
                       Deadline::after(std::chrono::seconds(10)));
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

void outlive(World& world, Checks& checks) {
  for (int victim = world.size() - 1; victim > 0; --victim) {
    if (world.rank() == victim) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ::kill(::getpid(), SIGKILL);
    }
    const Status end = end_of_attach(world, victim);
    checks.expect(end.code() == Code::peer_failed && end.detail().peer == victim,
                  "rank " + std::to_string(victim) + " died: " + end.text());
  }
}

}  // namespace

int main() { return weft::tests::run_as_survivor(outlive); }
