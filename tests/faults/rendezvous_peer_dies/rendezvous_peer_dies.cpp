// One of four ranks, the last of which dies between a request and its answer. The others' requests
// to the dead rank, and the tensors parked for it, fail with its name; exchanges among the others
// go on; the memory that the dead rank could have written is theirs again.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/rendezvous.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;
using weft::tests::fill;
using weft::tests::holds;
using weft::tests::pattern_of;

constexpr int kVictim = 3;
constexpr std::uint64_t kDeath = 30;
constexpr std::uint64_t kSteps = 60;
const Shape kShape{50'000};

void check_failed(Checks& checks, const Status& status, const std::string& what) {
  checks.expect(status.code() == Code::peer_failed && status.detail().peer == kVictim,
                what + ": " + status.text());
}

void send(World& world, Rendezvous& rendezvous, int to, std::uint64_t step) {
  const Tensor tensor = world.allocate(DType::f32, kShape);
  fill(tensor, pattern_of(world.rank(), to, step));
  rendezvous.send(to, "w", step, tensor).or_throw();
}

void take(World& world, Rendezvous& rendezvous, Checks& checks, int from, std::uint64_t step) {
  checks.expect(
      holds(rendezvous.recv(from, "w", step).value().tensor, pattern_of(from, world.rank(), step)),
      "step " + std::to_string(step) + " is wrong");
}

std::uint64_t data_in_use(const World& world) {
  for (const auto& arena : world.report().arenas)
    if (arena.sort == "data") return arena.used_bytes;
  return 0;
}

void exchange(World& world, Rendezvous& rendezvous, Checks& checks) {
  std::uint64_t used = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    if (step == kDeath && world.rank() == kVictim) {
      // The victim's own requests are under way, and those of others come in.
      (void)rendezvous.recv(0, "w", kSteps, Deadline::after(std::chrono::milliseconds(5)));
      ::kill(::getpid(), SIGKILL);
    }
    const int peers = step < kDeath ? 4 : kVictim;
    for (int to = 0; to < peers; ++to) send(world, rendezvous, to, step);
    for (int from = 0; from < peers; ++from) take(world, rendezvous, checks, from, step);
    if (step + 1 == kDeath) {
      rendezvous.serve().or_throw();
      used = data_in_use(world);
    }
    if (step != kDeath) continue;
    check_failed(checks, rendezvous.recv(kVictim, "w", step).status(), "recv");
    check_failed(checks, rendezvous.send(kVictim, "w", step, world.allocate(DType::f32, kShape)),
                 "send");
  }
  rendezvous.serve().or_throw();
  checks.expect(data_in_use(world) == used, "memory was not given back");
}

}  // namespace

int main() {
  return tests::run_as_survivor([](World& world, Checks& checks) {
    auto rendezvous = Rendezvous::open(world);
    exchange(world, rendezvous, checks);
  });
}
