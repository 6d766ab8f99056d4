// One rank of a cell of the matrix:
//   matrix_worker OPERATION BYTES FAULT MOMENT
// Rank 1 has the fault; where the fault is a cut link, the victim is rank 0, which is alone on its
// host. Each rank prints its end with its time on CLOCK_MONOTONIC, and the time at which its
// recorder saw the other rank's end:
//   rank 1 pid 4711 time 123.456 fault
//   rank 2 pid 4712 time 124.567 seen 123.457
//   rank 2 pid 4712 time 124.567 ended: peer_failed peer 1: <the error's text>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/stats/stats_view.hpp"
#include "base/stop_point.hpp"
#include "tests/faults/matrix/operations.hpp"

namespace {

using namespace weft;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kShortRun = 5;
constexpr std::int64_t kLarge = 1 << 20;
constexpr int kExitStatus = 7;

struct Cell {
  std::string operation;
  std::int64_t bytes;
  std::string fault;
  std::string moment;

  bool is_of_a_link() const { return fault == "cut" || fault == "back"; }
  /// Whether the fault passes, so that all ranks go on.
  bool passes() const { return fault == "back" || fault == "pause"; }
  int victim() const { return is_of_a_link() ? 0 : 1; }
  /// Steps until all ranks leave; 0: they go on until the fault ends them.
  std::uint64_t steps() const {
    if (moment == "after") return kShortRun;
    // Enough steps to last longer than the cut or the stop.
    if (passes()) return bytes > kLarge ? 20 : 200;
    return 0;
  }
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

/// Sets the network that the ranks use; the launcher has another one.
void set_link(const char* state) {
  if (std::system((std::string("ip link set eth1 ") + state).c_str()) != 0) std::exit(4);
}

/// Stops this process for less than DEAD_AFTER_S, as from outside: a child process continues it.
void pause_here() {
  const pid_t paused = getpid();
  if (fork() == 0) {
    // Repeated, since the first signal may come before the stop.
    for (int i = 0; i < 4; ++i) {
      usleep(400'000);
      kill(paused, SIGCONT);
    }
    _exit(0);
  }
  kill(getpid(), SIGSTOP);
}

/// Returns only if the process was stopped and continued, if the signal is handled, or if a link is
/// cut.
void fall(const Cell& cell) {
  say(cell.victim(), "fault");
  if (cell.fault == "exit") std::exit(kExitStatus);
  if (cell.is_of_a_link()) {
    set_link("down");
    std::this_thread::sleep_for(milliseconds(300));
    if (cell.fault == "back") set_link("up");
    return;
  }
  if (cell.fault == "pause") return pause_here();
  const int number = cell.fault == "kill" ? SIGKILL : cell.fault == "stop" ? SIGSTOP : SIGTERM;
  kill(getpid(), number);
}

const Cell* inside_cell = nullptr;
bool inside_tcp = false;

/// Called in the middle of the first tensor that this rank copies, or sends to or receives from
/// another host.
void fall_inside(const char* loop, std::size_t piece) noexcept {
  static std::atomic<bool> fell{false};
  if (inside_tcp != (std::string_view(loop) == "tcp")) return;
  if (piece > 0 && !fell.exchange(true)) fall(*inside_cell);
}

/// This rank's stats segment, which holds its recorder, if `descriptor` refers to it.
std::optional<stats::StatsView> own_stats(const std::filesystem::path& descriptor, int rank) {
  std::error_code none;
  if (!std::filesystem::read_symlink(descriptor, none).string().starts_with("/memfd:weft-status"))
    return std::nullopt;
  auto view = stats::StatsView::open(os::Fd(::open(descriptor.c_str(), O_RDONLY | O_CLOEXEC)));
  return view.identity().rank == rank ? std::optional(std::move(view)) : std::nullopt;
}

/// Prints the time at which this rank's recorder saw rank `other` end.
void say_when_seen(int rank, int other) {
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto view = own_stats(descriptor.path(), rank);
    if (!view) continue;
    for (const stats::RecordedEvent& event : view->recorder().all().events)
      if (event.peer == other &&
          (event.event == stats::Event::peer_failed || event.event == stats::Event::peer_left))
        return say(rank, "seen " + std::to_string(static_cast<double>(event.ended_ns) / 1e9));
  }
}

/// The rank by the launcher's variables, before there is a world.
int rank_before_join() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? -1 : std::atoi(rank);
}

/// Returns the status that ended the run, or ok after a short run without a fault within it.
Status run(World& world, const Cell& cell) {
  const auto operation = weft::tests::make_operation(world, cell.operation, cell.bytes);
  const auto together =
      weft::tests::make_operation(world, cell.operation == "dynamic" ? "put" : "dynamic", 1);
  const bool victim = world.rank() == cell.victim();
  // After this step every rank has set up all that it needs of the others.
  if (const Status status = operation->step(0); !status.ok()) return status;
  if (victim && cell.moment == "before") fall(cell);
  if (victim && cell.moment == "during")
    std::thread([cell] {
      std::this_thread::sleep_for(milliseconds(20 + getpid() % 30));
      fall(cell);
    }).detach();
  if (victim && cell.moment == "inside") {
    inside_cell = &cell;
    inside_tcp = world.host(0) != world.host(world.rank());
    stop_point = fall_inside;
  }
  const auto end = Deadline::after(seconds(25));
  for (std::uint64_t n = 1; !end.passed(); ++n) {
    if (cell.steps() != 0 && n > cell.steps()) break;
    if (const Status status = operation->step(n); !status.ok()) return status;
    if (cell.passes()) std::this_thread::sleep_for(milliseconds(5));
  }
  if (cell.steps() == 0) return {};
  // From here on no rank needs another.
  if (const Status status = together->step(1); !status.ok()) return status;
  if (victim && cell.moment == "after") fall(cell);
  return world.leave(Deadline::after(seconds(20)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Cell cell{argv[1], std::atoll(argv[2]), argv[3], argv[4]};
  int rank = rank_before_join();
  Status status;
  try {
    if (rank == cell.victim() && cell.moment == "bootstrap") fall(cell);
    World world = World::join();
    rank = world.rank();
    say(rank, "joined");
    status = run(world, cell);
    if (rank != cell.victim()) say_when_seen(rank, cell.victim());
  } catch (const Error& error) {
    status = error.status();
  }
  const int peer = status.ok() ? -1 : status.detail().peer;
  say(rank, "ended: " + std::string(name(status.code())) + " peer " + std::to_string(peer) + ": " +
                status.text());
  return status.ok() ? 0 : 3;
}
