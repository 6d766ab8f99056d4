// One rank that works until another one is killed, and reports when and why it stopped, on the
// clock of the driver (CLOCK_MONOTONIC):
//   fault_worker slots | messages | pslib
//   rank 2 pid 4711 time 123.456 joined
//   rank 2 pid 4711 time 124.567 ended: peer_failed peer 3: <the error's text>
#include "tests/faults/kill_random_rank/fault_worker.hpp"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <string>

namespace {

using namespace weft;

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// One write per line, so that lines of several ranks don't mix.
void say(int rank, const std::string& what) {
  const auto line = "rank " + std::to_string(rank) + " pid " + std::to_string(getpid()) + " time " +
                    std::to_string(now()) + " " + what + "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
}

Status work(World& world, const std::string& mode) {
  const auto end = Deadline::after(std::chrono::seconds(100));
  try {
    if (mode == "pslib") return tests::train_with_pslib(world, end);
    if (mode == "messages") return tests::exchange_messages(world, end);
    return tests::exchange_slots(world, end);
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "slots";
  World world = World::join();
  say(world.rank(), "joined");
  const auto status = work(world, mode);
  const int peer = status.ok() ? -1 : status.detail().peer;
  say(world.rank(), "ended: " + std::string(name(status.code())) + " peer " + std::to_string(peer) +
                        ": " + status.text());
  return status.ok() ? 0 : 3;
}
