#include "tests/faults/deadlines/two_ranks.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

namespace weft::tests {
namespace {

/// The time until rank 0 knows that a rank is stopped.
constexpr std::chrono::seconds kKnown{5};
/// The time after a cut until lost data has been sent once more.
constexpr milliseconds kResent{500};

Side side_of(World& world, const Places& places, std::uint32_t number) {
  return {world, std::to_string(1000 + number), places.folder / "token",
          "127.0.0.1:" + std::to_string(places.subscribers)};
}

/// One of several moments from which the time until now overflows, or nearly so.
Deadline long_past(std::uint32_t number) {
  switch (number % kPastDeadlines) {
    case 0:
      return Deadline::at(Clock::time_point::min());
    case 1:
      return Deadline::after(std::chrono::nanoseconds::min());
    default:
      return Deadline::at({});
  }
}

}  // namespace

const char* name_of(Mode mode) {
  return mode == Mode::stopped          ? "stopped before its part"
         : mode == Mode::stopped_within ? "stopped within its part"
         : mode == Mode::silent         ? "silent"
         : mode == Mode::past           ? "silent, with a deadline long past"
         : mode == Mode::known          ? "known to be stopped"
         : mode == Mode::cut            ? "cut off before its part"
                                        : "cut off within its part";
}

World join(int rank, const Places& places) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("WEFT_RANK", std::to_string(rank));
  set("WEFT_SIZE", "2");
  set("WEFT_ADDR", "127.0.0.1:" + std::to_string(places.port));
  set("WEFT_TOKEN_FILE", places.folder / "token");
  set("WEFT_TIMEOUT", "20s");
  ::setenv("WEFT_DEAD_AFTER", "60s", 0);  // a test may want ranks to be looked at more often
  return World::join();
}

int obey(int orders, const Places& places) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  World world = join(1, places);
  const std::vector<Row> rows = all_rows();
  std::optional<Case> now;
  for (;;) {
    Order order;
    if (::read(orders, &order, sizeof order) != sizeof order) return 1;
    char done = 1;
    try {
      switch (order.what) {
        case Order::What::make: {
          Side side = side_of(world, places, order.number);
          now.emplace(rows.at(order.row).make(side));
          break;
        }
        case Order::What::part:
          if (now->part) now->part();
          continue;
        case Order::What::end:
          if (now->end) now->end();
          now.reset();
          break;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank 1, %s: %s\n", rows.at(order.row).call.c_str(), error.what());
      done = 0;
    }
    if (::write(orders, &done, 1) != 1) return 1;
  }
}

void Peer::begin(const Order& order) const {
  if (::write(orders_, &order, sizeof order) != sizeof order)
    throw std::runtime_error("rank 1 is gone");
}

void Peer::await() const {
  char done = 0;
  if (::read(orders_, &done, 1) != 1) throw std::runtime_error("rank 1 is gone");
  if (done == 0) throw std::runtime_error("rank 1 failed");
}

void Peer::stop() const {
  int status = 0;
  ::kill(pid_, SIGSTOP);
  if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status))
    throw std::runtime_error("rank 1 ended in place of stopping");
}

void Peer::set_link(bool up) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
  const bool done = ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  if (!done) throw std::runtime_error("the link can't be cut");
}

void Runner::begin_fault(Mode mode) const {
  if (is_cut(mode))
    Peer::set_link(false);
  else if (mode != Mode::silent && mode != Mode::past)
    peer_.stop();
  if (mode != Mode::known) return;
  const auto until = std::chrono::steady_clock::now() + kKnown;
  const auto is_known = [this] {
    const std::vector<PathReport> paths = world_.report().paths;
    return std::ranges::any_of(
        paths, [](const PathReport& path) { return path.health == PeerHealth::suspect; });
  };
  while (!is_known())
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("rank 1 is stopped, and nobody knows it");
    else
      std::this_thread::sleep_for(milliseconds(5));
}

void Runner::end_fault(Mode mode) const {
  if (!is_cut(mode)) {
    if (mode != Mode::silent && mode != Mode::past) peer_.go_on();
    return;
  }
  Peer::set_link(true);
  std::this_thread::sleep_for(kResent);
}

std::string Runner::run(std::uint32_t index, const Row& row, Mode mode) {
  std::string trouble;
  for (int i = 0; i < kTries; ++i) {
    bool late = false;
    trouble = attempt(index, row, mode, late);
    if (!late) break;
    std::fprintf(stderr, "%s, rank 1 %s: late in try %d: %s\n", row.label().c_str(), name_of(mode),
                 i + 1, trouble.c_str());
  }
  return trouble;
}

std::string Runner::attempt(std::uint32_t index, const Row& row, Mode mode, bool& late) {
  const std::uint32_t number = ++number_;
  Side side = side_of(world_, places_, number);
  peer_.begin({Order::What::make, index, number});
  std::optional<Case> now = row.make(side);
  peer_.await();
  if (is_within(mode)) {
    peer_.begin({Order::What::part, index, number});
    std::this_thread::sleep_for(std::chrono::microseconds(50 * (number % 8)));
  }
  begin_fault(mode);
  const auto begun = std::chrono::steady_clock::now();
  const Said said = now->call(mode == Mode::past ? long_past(number) : Deadline::after(kDeadline));
  const auto took = std::chrono::steady_clock::now() - begun;
  const std::string trouble = judge(row, said, took, mode, late);
  if (said.status.code() == Code::timeout) ++timeouts_;
  peer_.begin({Order::What::end, index, number});
  if (now->end) now->end();
  now.reset();
  peer_.await();
  return trouble;
}

std::string Runner::judge(const Row& row, const Said& said, std::chrono::nanoseconds took,
                          Mode mode, bool& late) {
  std::string trouble;
  const auto ms = std::chrono::duration_cast<milliseconds>(took);
  if (took > kDeadline + grace) {
    late = true;
    trouble = "it took " + std::to_string(ms.count()) + " ms, its deadline was " +
              std::to_string(kDeadline.count());
  }
  const Code code = said.status.code();
  const std::string text = said.status.text();
  if (code != Code::ok && code != Code::timeout)
    trouble = "it says " + text;
  else if (code == Code::timeout && row.names_peer && text.find("rank 1") == std::string::npos)
    trouble = "its error does not name rank 1: " + text;
  else if (mode == Mode::known && code == Code::timeout && row.names_peer &&
           text.find("(it is stopped for ") == std::string::npos)
    trouble = "its error does not say that rank 1 is stopped: " + text;
  // Fill the memory that the call gave back to the caller, then let the other rank go on.
  // Over RDMA the memory stays lent after a timeout: tests/threads/verbs/late_reads_test.cpp.
  const char* const fabric = std::getenv("WEFT_FABRIC");
  const bool stays_lent = fabric != nullptr && std::strcmp(fabric, "verbs") == 0;
  const bool is_given_back = code != Code::ok && !said.memory.empty() && !stays_lent;
  if (is_given_back) std::ranges::fill(said.memory, std::byte{0xab});
  end_fault(mode);
  if (!is_given_back) return trouble;
  std::this_thread::sleep_for(milliseconds(20));
  const SlotSpec nothing{.name = "nothing", .dtype = DType::u8, .shape = {1}};
  (void)world_.expose(nothing).wait(Deadline::after(milliseconds(20)));  // receives what comes
  if (!std::ranges::all_of(said.memory, [](std::byte byte) { return byte == std::byte{0xab}; }))
    trouble = "memory that it gave back was written when rank 1 went on";
  return trouble;
}

}  // namespace weft::tests
