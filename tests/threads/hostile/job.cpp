#include "tests/threads/hostile/job.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "tests/threads/hostile/scribbler.hpp"
#include "tests/threads/hostile/workloads.hpp"
#include "tests/unit/base/free_port.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kWell = 0;
constexpr int kMetErrors = 10;
constexpr int kNotTyped = 11;
/// An honest rank works for this time, then leaves.
constexpr milliseconds kWork{400};
constexpr const char* kTimeout = "600ms";
/// The hostile rank is killed after this time.
constexpr std::chrono::seconds kPatience{6};
/// An honest rank must end within this time, also on a busy machine and under a sanitizer.
constexpr std::chrono::seconds kBound{30};

/// A token that the ranks of this process's jobs know.
class TokenFile {
 public:
  TokenFile() {
    folder_.write("token", "0123456789abcdef0123456789abcdef0123456789abcdef\n");
    ::chmod(path().c_str(), 0600);
  }
  std::string path() const { return (folder_.path() / "token").string(); }

 private:
  const TempFolder folder_;  // its name cannot be guessed, so nothing can be planted there
};

/// An honest rank goes on after its first two errors, as a careless program may.
int work(World& world, const HostileJob& job, bool is_hostile) {
  std::optional<Scribbler> scribbler;
  std::mt19937 random(job.seed);
  const auto plan = Scribbler::Plan::of(job.seed);
  // In half of the jobs the hostile rank starts while the others still attach to each other.
  const bool from_the_start = random() % 2 == 0;
  if (is_hostile && from_the_start) scribbler.emplace(plan);
  const auto end = steady_clock::now() + kWork;
  int errors = 0;
  auto workload = make_workload(world, job.workload);
  if (is_hostile && !from_the_start) scribbler.emplace(plan);
  for (std::uint64_t step = 1; steady_clock::now() < end && errors < 3; ++step)
    if (const Status status = workload->step(step); !status.ok()) {
      if (errors++ == 0) std::printf("  rank %d: %s\n", world.rank(), status.text().c_str());
    }
  workload.reset();
  (void)world.leave(Deadline::after(milliseconds(500)));
  return errors == 0 ? kWell : kMetErrors;
}

int be_rank(const HostileJob& job, int rank, int port, const std::string& token) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("WEFT_RANK", std::to_string(rank));
  set("WEFT_SIZE", std::to_string(HostileJob::kRanks));
  set("WEFT_ADDR", "127.0.0.1:" + std::to_string(port));
  set("WEFT_TOKEN_FILE", token);
  set("WEFT_TIMEOUT", kTimeout);
  set("WEFT_LOG", std::getenv("WEFT_TEST_TRACE") != nullptr ? "info" : "off");
  set("WEFT_ARENA_CHUNK", "2m");
  set("WEFT_FABRIC", "auto");
  try {
    World world = World::join();
    return work(world, job, rank == job.hostile());
  } catch (const Error& error) {
    std::printf("  rank %d: %s\n", rank, error.what());
    return kMetErrors;
  } catch (const std::exception& error) {
    std::printf("  rank %d: not an error of weft: %s\n", rank, error.what());
    return kNotTyped;
  }
}

std::string verdict(const HostileJob& job, int rank, int status) {
  const std::string who = "seed " + std::to_string(job.seed) + ", " + job.workload + ": rank " +
                          std::to_string(rank) + " beside hostile rank " +
                          std::to_string(job.hostile());
  if (WIFSIGNALED(status)) return who + " was ended by signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  return code == kWell || code == kMetErrors ? "" : who + " exited with " + std::to_string(code);
}

}  // namespace

int HostileJob::hostile() const noexcept {
  return static_cast<int>((seed * 2654435761U >> 16U) % kRanks);
}

Outcome run(const HostileJob& job) {
  const TokenFile token;
  const int port = free_port();
  const auto start = steady_clock::now();
  std::fflush(nullptr);
  std::array<pid_t, HostileJob::kRanks> ranks{};
  for (int rank = 0; rank < HostileJob::kRanks; ++rank) {
    ranks[static_cast<std::size_t>(rank)] = ::fork();
    if (ranks[static_cast<std::size_t>(rank)] != 0) continue;
    const int code = be_rank(job, rank, port, token.path());
    std::fflush(nullptr);
    ::_exit(code);
  }
  Outcome outcome;
  const pid_t hostile = ranks[static_cast<std::size_t>(job.hostile())];
  const auto has_ended = [&](int rank, int& status) {
    // The hostile rank may be stuck in words that it has overwritten, while the others rightly wait
    // for it.
    if (steady_clock::now() > start + kPatience) ::kill(hostile, SIGKILL);
    return ::waitpid(ranks[static_cast<std::size_t>(rank)], &status, WNOHANG) != 0;
  };
  for (int rank = 0; rank < HostileJob::kRanks; ++rank) {
    if (rank == job.hostile()) continue;
    int status = 0;
    bool ended = has_ended(rank, status);
    while (!ended && steady_clock::now() < start + kBound) {
      std::this_thread::sleep_for(milliseconds(2));
      ended = has_ended(rank, status);
    }
    if (ended) {
      if (const std::string why = verdict(job, rank, status); !why.empty())
        outcome.broken.push_back(why);
      outcome.errors += WIFEXITED(status) && WEXITSTATUS(status) == kMetErrors ? 1 : 0;
      continue;
    }
    outcome.broken.push_back("seed " + std::to_string(job.seed) + ", " + job.workload + ": rank " +
                             std::to_string(rank) + " does not end (hostile rank " +
                             std::to_string(job.hostile()) + ")");
    if (std::getenv("WEFT_TEST_TRACE") != nullptr) ::sleep(600);  // for a debugger
    ::kill(ranks[static_cast<std::size_t>(rank)], SIGKILL);
    (void)::waitpid(ranks[static_cast<std::size_t>(rank)], &status, 0);
  }
  outcome.seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  int status = 0;
  ::kill(hostile, SIGKILL);
  (void)::waitpid(hostile, &status, 0);
  return outcome;
}

}  // namespace weft::tests
