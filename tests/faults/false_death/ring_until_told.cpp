// Ranks that pass a number round a ring, from rank 0 to rank 0, until rank 0 gets SIGUSR1. Each
// rank needs the previous one all the time, and reports at the end that no rank was declared dead:
//   rank 3 pid 4711 runs
//   rank 3 held after 1234 rounds
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using std::chrono::minutes;
using tests::Checks;

constexpr std::int64_t kLast = -1;
const SlotSpec kSlot{.name = "round", .dtype = DType::i64, .shape = {1}};

volatile sig_atomic_t told = 0;
void note(int /*signal*/) { told = 1; }

/// The number of rounds; negative: a wait or a put failed.
std::int64_t go_round(World& world, Checks& checks) {
  auto in = world.expose(kSlot);
  auto out = world.attach((world.rank() + 1) % world.size(), kSlot);
  const Tensor tensor = world.allocate(kSlot.dtype, kSlot.shape);
  std::int64_t& number = tensor.as<std::int64_t>()[0];
  const auto pass_on = [&] {
    const Status put = out.put(tensor).wait(Deadline::after(minutes(2)));
    checks.expect(put.ok(), put.text());
    return put.ok();
  };
  const bool first = world.rank() == 0;
  for (std::int64_t round = 1;; ++round) {
    number = told != 0 ? kLast : round;
    if (first && !pass_on()) return -1;
    const auto arrival = in.wait(Deadline::after(minutes(2)));
    checks.expect(arrival.ok(), arrival.status().text());
    if (!arrival.ok()) return -1;
    number = arrival->as<std::int64_t>()[0];
    if (!first && !pass_on()) return -1;
    if (number == kLast) return round;
  }
}

}  // namespace

int main() {
  signal(SIGUSR1, note);
  return tests::run_as_rank([](World& world, Checks& checks) {
    std::printf("rank %d pid %d runs\n", world.rank(), getpid());
    std::fflush(stdout);
    const std::int64_t rounds = go_round(world, checks);
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    for (const int rank : all) {
      const Status peer_status = world.alive(std::span(&rank, 1));
      // The ring ends at one rank after the other.
      checks.expect(peer_status.ok() || peer_status.code() == Code::peer_left, peer_status.text());
    }
    if (rounds > 0 && checks.passed())
      std::printf("rank %d held after %ld rounds\n", world.rank(), static_cast<long>(rounds));
  });
}
