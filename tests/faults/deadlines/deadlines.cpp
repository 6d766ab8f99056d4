// Every public call that takes a deadline, while the rank that it needs is stopped before its part,
// stopped within it, or silent; also with a deadline that lies as far in the past as one can. The
// call returns within its deadline and names that rank, and
// memory that it gave back is not written any more. Each call has a job of its own.
//
// Usage: deadlines [--grace MS] HEADERS FOLDER [CALL...]
//        deadlines --known HEADERS FOLDER [CALL...]: rank 1 is stopped long enough for rank 0 to
//        know and report it
//        deadlines --cut HEADERS FOLDER [CALL...]: over TCP, in its own network namespaces, while
//        the link between the ranks is cut before rank 1's part, or within it
// WEFT_FABRIC chooses the fabric.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/deadlines/headers.hpp"
#include "tests/faults/deadlines/two_ranks.hpp"
#include "tests/unit/base/free_port.hpp"

namespace {

using namespace weft;
using namespace weft::tests;

constexpr std::chrono::seconds kJobLimit{60};
constexpr std::uint32_t kLanes = 3;

/// With WEFT_TEST_FULL, the fault comes at more moments within rank 1's part.
int repeats() {
  const char* const full = std::getenv("WEFT_TEST_FULL");
  return full != nullptr && std::strcmp(full, "1") == 0 ? 8 : 1;
}

void write_token(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const std::string token(64, 'a');
  if (fd < 0 || ::write(fd, token.data(), token.size()) < 0)
    throw std::runtime_error("can't write " + file.string());
  ::close(fd);
}

/// Every call in the headers has a row, and every row a call. World::leave() runs last, separately;
/// World::copy() and PublishedSlot::publish() wait for a GPU, or with a stream for this rank's
/// others (tests/cuda/world/*copy_test.cpp, tests/cuda/slots/publish*_test.cpp).
int compare(const std::filesystem::path& headers, const std::vector<Row>& rows) {
  int failures = 0;
  auto calls = calls_with_deadlines(headers);
  if (calls.size() < 40) {
    std::fprintf(stderr, "only %zu calls were found in the headers\n", calls.size());
    ++failures;
  }
  std::set<std::string> tested{"World::leave", "World::copy", "PublishedSlot::publish",
                               "PublishedSlot::publish#2"};
  for (const Row& row : rows) tested.insert(row.call);
  for (const std::string& call : calls)
    if (!tested.contains(call)) {
      std::fprintf(stderr, "%s takes a deadline and has no row\n", call.c_str());
      ++failures;
    }
  for (const std::string& call : tested)
    if (!calls.contains(call)) {
      std::fprintf(stderr, "there is a row for %s, which the headers do not have\n", call.c_str());
      ++failures;
    }
  return failures;
}

std::string leave(World& world, const Peer& peer, bool& late) {
  peer.stop();
  const auto begun = std::chrono::steady_clock::now();
  const Status left = world.leave(Deadline::after(kDeadline));
  const auto took = std::chrono::steady_clock::now() - begun;
  peer.go_on();
  late = took > kDeadline + grace;
  if (!late && left.code() == Code::timeout && left.text().find("rank 1") != std::string::npos)
    return {};
  const auto ms = std::chrono::duration_cast<milliseconds>(took).count();
  return "it took " + std::to_string(ms) + " ms and says " + left.text();
}

/// Runs a row in a job of its own; a call that never returns ends with that job.
class Jobs {
 public:
  Jobs(std::filesystem::path folder, std::span<const Mode> modes)
      : folder_(std::move(folder)), modes_(modes) {}

  int failures() const { return failures_; }

  void run(std::uint32_t index, const Row& row) {
    in_job(row.call, [&](World& world, const Peer& peer, const Places& places) {
      Runner runner(world, peer, places);
      int failures = 0;
      for (const Mode mode : modes_) {
        const int times = mode == Mode::past ? kPastDeadlines : repeats();
        for (int i = 0; i < times; ++i) {
          const std::string trouble = runner.run(index, row, mode);
          if (trouble.empty()) continue;
          ++failures;
          std::fprintf(stderr, "%s, rank 1 %s: %s\n", row.label().c_str(), name_of(mode),
                       trouble.c_str());
        }
      }
      if (row.needs_peer && runner.timeouts() == 0) {
        ++failures;
        std::fprintf(stderr, "%s never needed rank 1\n", row.label().c_str());
      }
      return failures;
    });
  }

  void leaves() {
    const std::string name = "World::leave";
    for (int i = 1; i <= kTries; ++i) {
      bool late = false;
      const int said = in_job(name, [&](World& world, const Peer& peer, const Places&) {
        const std::string trouble = leave(world, peer, late);
        if (!trouble.empty()) std::fprintf(stderr, "%s: %s\n", name.c_str(), trouble.c_str());
        return trouble.empty() ? 0 : late && i < kTries ? kAgain : 1;
      });
      if (said != kAgain) break;
    }
  }

 private:
  static constexpr int kAgain = 100;

  template <typename Act>
  int in_job(const std::string& name, const Act& act) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(as_rank_0(name, act));
    int status = 0;
    const auto limit = std::chrono::steady_clock::now() + kJobLimit;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(milliseconds(2));
        continue;
      }
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kAgain) return kAgain;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    if (!WIFEXITED(status))
      std::fprintf(stderr, "%s: its process ended by signal %d\n", name.c_str(), WTERMSIG(status));
    ++failures_;
    return 1;
  }

  template <typename Act>
  int as_rank_0(const std::string& name, const Act& act) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      const Places places{folder_, free_port(), free_port()};
      std::array<int, 2> ends{};
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return 1;
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::close(ends[0]);
        ::_exit(obey(ends[1], places));
      }
      ::close(ends[1]);
      const Peer peer(ends[0], pid);
      World world = join(0, places);
      ::_exit(act(world, peer, places));  // takes rank 1 along
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
      return 1;
    }
  }

  const std::filesystem::path folder_;
  const std::span<const Mode> modes_;
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto is_asked = [&](const char* option) {
    if (argc < 2 || std::strcmp(argv[1], option) != 0) return false;
    --argc;
    ++argv;
    return true;
  };
  const bool known = is_asked("--known");
  if (known) ::setenv("WEFT_DEAD_AFTER", "10s", 1);
  const bool cuts = is_asked("--cut");
  if (cuts) {
    ::setenv("WEFT_FABRIC", "tcp", 1);
    if (::unshare(CLONE_NEWNET) != 0) {
      std::printf("skipped: a network namespace needs root\n");
      return 77;
    }
  }
  if (argc > 2 && std::strcmp(argv[1], "--grace") == 0) {
    grace = milliseconds(std::atoi(argv[2]));
    argc -= 2;
    argv += 2;
  }
  if (argc < 3) return 2;
  const std::set<std::string> only(argv + 3, argv + argc);
  const auto is_wanted = [&](const std::string& call) {
    return only.empty() || only.contains(call);
  };
  try {
    const std::filesystem::path folder = argv[2];
    std::filesystem::create_directories(folder);
    write_token(folder / "token");
    const std::vector<Row> rows = all_rows();
    int failures = compare(argv[1], rows);
    std::array<pid_t, kLanes> lanes{};
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = ::fork();
      if (lanes[lane] != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (cuts) {
        if (::unshare(CLONE_NEWNET) != 0) ::_exit(1);
        tests::Peer::set_link(true);
      }
      Jobs jobs(folder, cuts    ? std::span<const Mode>(kCutModes)
                        : known ? std::span<const Mode>(kKnownModes)
                                : kModes);
      for (std::uint32_t i = lane; i < rows.size(); i += kLanes)
        if (is_wanted(rows[i].call)) jobs.run(i, rows[i]);
      if (lane == 0 && !cuts && is_wanted("World::leave")) jobs.leaves();
      ::_exit(std::min(jobs.failures(), 100));
    }
    for (const pid_t lane : lanes) {
      int status = 0;
      if (::waitpid(lane, &status, 0) != lane || !WIFEXITED(status))
        ++failures;
      else
        failures += WEXITSTATUS(status);
    }
    std::fprintf(stderr, "%zu calls, %d failures\n", rows.size() + 1, failures);
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "failed: %s\n", error.what());
    return 1;
  }
}
