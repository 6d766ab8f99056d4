#include "tests/threads/shortage/job.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <latch>
#include <new>
#include <thread>

#include "base/config.hpp"
#include "runtime/world/in_process.hpp"
#include "tests/threads/hostile/workloads.hpp"

namespace weft::tests {
namespace {

constexpr int kRanks = 2;
/// They mostly wait for a rank that has failed.
constexpr std::size_t kAtOnce = 16;
constexpr int kWell = 0;
constexpr int kNotTyped = 11;
constexpr int kTerminated = 12;
constexpr int kEndless = 13;
constexpr int kSignalled = 64;  // and the signal's number
/// The calls of a job take at most WEFT_TIMEOUT each; this holds on a busy machine too.
constexpr unsigned kBound = 40;  // seconds

Config settings_of(const ShortageJob& job) {
  return Config()
      .with(Setting::timeout, "400ms")
      .with(Setting::init_timeout, "2s")
      .with(Setting::arena_chunk, "2m")
      .with(Setting::log, "off")
      .with(Setting::fabric, job.fabric);
}

/// A rank's whole life. The program's own allocations may fail too.
void be_rank(InProcessJob& job, int rank, const std::string& name) {
  World world = job.join(rank);
  auto workload = make_workload(world, name);
  for (std::uint64_t step = 1; step <= 3; ++step)
    if (!workload->step(step).ok()) break;
  workload.reset();
  (void)world.leave(Deadline::after(std::chrono::milliseconds(400)));
}

int report = -1;

void send(const Allocations& allocations) noexcept {
  (void)!::write(report, &allocations, sizeof allocations);
}

[[noreturn]] void terminated() {
  send(end_shortage());
  ::_exit(kTerminated);
}

[[noreturn]] void on_signal(int signal) {
  send(end_shortage());
  ::_exit(signal == SIGALRM ? kEndless : kSignalled + signal);
}

[[noreturn]] void be_process(const ShortageJob& job) {
  std::set_terminate(terminated);
  for (const int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGABRT}) (void)std::signal(signal, on_signal);
  ::alarm(kBound);
  std::atomic<bool> is_typed{true};
  InProcessJob ranks(kRanks, settings_of(job));
  const auto run_rank = [&](int rank) {
    try {
      be_rank(ranks, rank, job.workload);
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: not an error of weft: %s\n", rank, error.what());
      is_typed.store(false);
    }
  };
  {
    std::latch both(kRanks);  // starting a thread allocates too
    const std::jthread second([&] {
      both.arrive_and_wait();
      run_rank(1);
    });
    begin(job.shortage);
    both.arrive_and_wait();
    run_rank(0);
  }
  send(end_shortage());
  ::_exit(is_typed.load() ? kWell : kNotTyped);
}

std::string verdict(int status) {
  if (WIFSIGNALED(status)) return "is ended by signal " + std::to_string(WTERMSIG(status));
  switch (WEXITSTATUS(status)) {
    case kWell:
      return "";
    case kTerminated:
      return "calls std::terminate";
    case kEndless:
      return "does not end";
    case kNotTyped:
      return "throws what is no error of weft";
    default:
      return "is ended by signal " + std::to_string(WEXITSTATUS(status) - kSignalled);
  }
}

/// A job under way.
struct Running {
  pid_t process = -1;
  int report = -1;
};

Running start(const ShortageJob& job) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    report = ends[1];
    be_process(job);
  }
  ::close(ends[1]);
  return {process, ends[0]};
}

ShortageOutcome end(const Running& running) {
  if (running.process < 0) return {.broken = "is not started"};
  Allocations allocations;
  if (::read(running.report, &allocations, sizeof allocations) < 0) allocations = {};
  ::close(running.report);
  int status = 0;
  (void)::waitpid(running.process, &status, 0);
  ShortageOutcome outcome{.broken = verdict(status), .allocations = allocations.counted};
  if (!outcome.broken.empty()) outcome.broken += "\n" + text(allocations);
  return outcome;
}

}  // namespace

std::vector<ShortageOutcome> run(const std::vector<ShortageJob>& jobs) {
  std::vector<ShortageOutcome> outcomes;
  for (std::size_t first = 0; first < jobs.size(); first += kAtOnce) {
    std::vector<Running> running;
    for (std::size_t i = first; i < std::min(jobs.size(), first + kAtOnce); ++i)
      running.push_back(start(jobs[i]));
    for (const Running& job : running) outcomes.push_back(end(job));
  }
  return outcomes;
}

}  // namespace weft::tests
