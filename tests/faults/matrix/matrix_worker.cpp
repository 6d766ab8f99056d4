// One rank of a cell of the matrix: matrix_worker OPERATION BYTES FAULT MOMENT
// Rank 1 has the fault. Everybody says on CLOCK_MONOTONIC what becomes of him:
//   rank 1 pid 4711 time 123.456 fault
//   rank 2 pid 4712 time 124.567 ended: peer_failed peer 1: <the error's text>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "tests/faults/matrix/operations.hpp"

namespace {

using namespace weft;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kVictim = 1;
constexpr int kShortRun = 5;
constexpr int kExitStatus = 7;

struct Cell {
  std::string operation;
  std::int64_t bytes;
  std::string fault;
  std::string moment;
};

/// One write per line, so that lines of several ranks don't mix.
void say(int rank, const std::string& what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double time = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  const auto line = "rank " + std::to_string(rank) + " pid " + std::to_string(getpid()) + " time " +
                    std::to_string(time) + " " + what + "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
}

/// Returns only if it was stopped and goes on, or if the signal is handled.
void fall(const std::string& fault) {
  say(kVictim, "fault");
  if (fault == "exit") std::exit(kExitStatus);
  const int number = fault == "kill" ? SIGKILL : fault == "stop" ? SIGSTOP : SIGTERM;
  kill(getpid(), number);
}

/// The rank as its launcher says, where there is no world yet.
int rank_before_join() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? -1 : std::atoi(rank);
}

/// Ends with what ended the run, or after a short one where nothing is to happen within it.
Status run(World& world, const Cell& cell) {
  const auto operation = weft::tests::make_operation(world, cell.operation, cell.bytes);
  const auto together =
      weft::tests::make_operation(world, cell.operation == "dynamic" ? "put" : "dynamic", 1);
  const bool victim = world.rank() == kVictim;
  // Everybody has what he needs of everybody.
  if (const Status status = operation->step(0); !status.ok()) return status;
  if (victim && cell.moment == "before") fall(cell.fault);
  if (victim && cell.moment == "during")
    std::thread([fault = cell.fault] {
      std::this_thread::sleep_for(milliseconds(20 + getpid() % 30));
      fall(fault);
    }).detach();
  const auto end = Deadline::after(seconds(25));
  for (std::uint64_t n = 1; !end.passed(); ++n) {
    if (cell.moment == "after" && n > kShortRun) break;
    if (const Status status = operation->step(n); !status.ok()) return status;
  }
  if (cell.moment != "after") return {};
  // Nobody needs anybody any more.
  if (const Status status = together->step(1); !status.ok()) return status;
  if (victim) fall(cell.fault);
  return world.leave(Deadline::after(seconds(20)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Cell cell{argv[1], std::atoll(argv[2]), argv[3], argv[4]};
  int rank = rank_before_join();
  Status status;
  try {
    if (rank == kVictim && cell.moment == "bootstrap") fall(cell.fault);
    World world = World::join();
    rank = world.rank();
    say(rank, "joined");
    status = run(world, cell);
  } catch (const Error& error) {
    status = error.status();
  }
  const int peer = status.ok() ? -1 : status.detail().peer;
  say(rank, "ended: " + std::string(name(status.code())) + " peer " + std::to_string(peer) + ": " +
                status.text());
  return status.ok() ? 0 : 3;
}
