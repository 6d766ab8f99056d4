// One rank of a job with traffic both ways between every two ranks, until an error or a limit:
//   roce_traffic exchange SECONDS        exchanges tensors with all ranks for SECONDS
//   roce_traffic rails SECONDS BACK      the same with tensors of 4 MiB, which go by all rails;
//   then
//                                        waits until each lost rail is back, if BACK is 1
//   roce_traffic die RANK MILLISECONDS   the same; RANK kills itself MILLISECONDS after its start
//   roce_traffic receive                 the lower half of the ranks gets a few tensors, then none
// It prints one line when it is under way and one when it ends:
//   rank 2 runs
//   rank 2 dies
//   rank 2 ended in round 99: peer_failed peer 3: <the error's text>
//   rank 2 held 100 rounds
//   rank 2 has 2 rails to rank 0, 1 up, lost 1, back 0
// A tensor with wrong bytes, or out of order, ends a rank as "wrong".
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/pattern.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using std::chrono::seconds;

std::int64_t elements = 4000;  // of a tensor
constexpr std::int64_t kLarge = 512 << 10;
constexpr std::uint64_t kFirst = 3;  // tensors, until a rank is under way

/// One write per line, so that lines of several ranks don't mix.
void say(const World& world, const std::string& what) {
  const std::string line = "rank " + std::to_string(world.rank()) + " " + what + "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), line.size());
}

void say_that_it_runs(const World& world) { say(world, "runs"); }

void say_how_it_ended(const World& world, std::uint64_t round, const Status& status) {
  say(world, "ended in round " + std::to_string(round) + ": " + std::string(name(status.code())) +
                 " peer " + std::to_string(status.detail().peer) + ": " + status.text());
}

SlotSpec spec_from(int writer) {
  return {.name = "from " + std::to_string(writer),
          .dtype = DType::i64,
          .shape = {elements},
          .depth = 2};
}

/// The connection to one peer, both ways. The first element says whether the round is the last.
struct Edge {
  int peer = -1;
  Slot in;
  RemoteSlot out;
  Tensor tensor;
};

std::uint64_t pattern(int from, int to, std::uint64_t round) {
  return tests::pattern_of(from, to, round);
}

Status wrong(int peer, const std::string& what) {
  return Status(
      ErrorDetail{.code = Code::mismatch, .operation = "wrong", .message = what, .peer = peer});
}

Status put(const World& world, Edge& edge, std::uint64_t round, bool is_last) {
  tests::fill(edge.tensor, pattern(world.rank(), edge.peer, round));
  edge.tensor.as<std::int64_t>()[0] = is_last ? 1 : 0;
  return edge.out.put(edge.tensor).wait();
}

Status take(const World& world, Edge& edge, std::uint64_t round, bool& is_last) {
  const auto arrival = edge.in.wait();
  if (!arrival.ok()) return arrival.status();
  const auto values = arrival->as<std::int64_t>();
  is_last = is_last || values[0] == 1;
  values[0] = static_cast<std::int64_t>(tests::mix(pattern(edge.peer, world.rank(), round)));
  if (!tests::holds(arrival->tensor(), pattern(edge.peer, world.rank(), round)))
    return wrong(edge.peer, "the tensor of this round has other bytes");
  return {};
}

std::vector<Edge> edges_of(World& world) {
  std::vector<Edge> edges;
  for (int peer = 0; peer < world.size(); ++peer)
    if (peer != world.rank())
      edges.push_back({.peer = peer, .in = world.expose(spec_from(peer)), .out = {}, .tensor = {}});
  for (Edge& edge : edges) {
    edge.out = world.attach(edge.peer, spec_from(world.rank()));
    edge.tensor = world.allocate(DType::i64, {elements});
  }
  return edges;
}

/// Tells of the rails to each other rank, once all that were lost are back, if so wanted.
void say_rails(const World& world, bool wanted_back) {
  constexpr seconds kPatience{30};
  const auto is_back = [](const PathReport& path) { return path.rails_back == path.rails_lost; };
  Report report = world.report();
  for (const Deadline end = Deadline::after(kPatience);
       wanted_back && !end.passed() && !std::ranges::all_of(report.paths, is_back);
       report = world.report())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const PathReport& path : report.paths)
    if (path.peer != world.rank())
      say(world, "has " + std::to_string(path.rails.size()) + " rails to rank " +
                     std::to_string(path.peer) + ", " +
                     std::to_string(std::ranges::count_if(path.rails, &RailReport::up)) +
                     " up, lost " + std::to_string(path.rails_lost) + ", back " +
                     std::to_string(path.rails_back));
}

/// The rank may die at any moment of its work.
void die_after(const World& world, std::chrono::milliseconds span) {
  std::thread([&world, span] {
    std::this_thread::sleep_for(span);
    say(world, "dies");
    kill(getpid(), SIGKILL);
  }).detach();
}

/// A tensor to each other rank and from each.
Status turn(const World& world, std::vector<Edge>& edges, std::uint64_t& round, bool& is_last) {
  for (Edge& edge : edges)
    if (auto status = put(world, edge, round, is_last); !status.ok()) return status;
  for (Edge& edge : edges)
    if (auto status = take(world, edge, round, is_last); !status.ok()) return status;
  ++round;
  return {};
}

/// Rank 0 decides which round is the last; all others learn of it in that round.
Status exchange(World& world, Deadline end, const std::optional<std::chrono::milliseconds>& death,
                std::uint64_t& round, std::optional<bool> rails_back = {}) {
  std::vector<Edge> edges = edges_of(world);
  bool is_last = false;
  while (!is_last) {
    if (round == kFirst) say_that_it_runs(world);
    if (round == kFirst && death) die_after(world, *death);
    is_last = world.rank() == 0 && end.passed();
    if (auto status = turn(world, edges, round, is_last); !status.ok()) return status;
  }
  if (rails_back) {
    say_rails(world, *rails_back);
    // A rank that has left has no rails.
    if (auto status = turn(world, edges, round, is_last); !status.ok()) return status;
  }
  return world.leave(Deadline::after(seconds(60)));
}

/// Ranks of the upper half put a few tensors, and then live on without a message.
Status receive(World& world, std::uint64_t& round) {
  const int half = world.size() / 2;
  const int peer = (world.rank() + half) % world.size();
  Edge edge{.peer = peer, .in = {}, .out = {}, .tensor = {}};
  if (world.rank() >= half) {
    edge.out = world.attach(peer, spec_from(world.rank()));
    edge.tensor = world.allocate(DType::i64, {elements});
    for (; round < kFirst; ++round)
      if (auto status = put(world, edge, round, false); !status.ok()) return status;
    say_that_it_runs(world);
    std::this_thread::sleep_for(seconds(100));
    return wrong(peer, "nothing has happened");
  }
  edge.in = world.expose(spec_from(peer));
  for (bool is_last = false;; ++round) {
    if (round == kFirst) say_that_it_runs(world);
    if (auto status = take(world, edge, round, is_last); !status.ok()) return status;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string mode = arguments.empty() ? "receive" : arguments[0];
  const auto number = [&](std::size_t at) { return std::stoi(arguments.at(at)); };
  World world = World::join();
  std::uint64_t round = 0;
  Status status;
  try {
    if (mode == "receive") {
      status = receive(world, round);
    } else if (mode == "exchange") {
      status = exchange(world, Deadline::after(seconds(number(1))), {}, round);
    } else if (mode == "rails") {
      elements = kLarge;
      status = exchange(world, Deadline::after(seconds(number(1))), {}, round, number(2) == 1);
    } else {
      std::optional<std::chrono::milliseconds> death;
      if (number(1) == world.rank()) death.emplace(number(2));
      status = exchange(world, Deadline::after(seconds(200)), death, round);
    }
  } catch (const Error& error) {
    status = error.status();
  }
  if (status.ok())
    say(world, "held " + std::to_string(round) + " rounds");
  else
    say_how_it_ended(world, round, status);
  return status.ok() ? 0 : 3;
} catch (const std::exception& error) {
  std::fprintf(stderr, "failed: %s\n", error.what());
  return 1;
}
