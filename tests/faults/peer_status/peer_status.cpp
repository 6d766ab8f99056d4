// Rank 0 stops, continues and kills the others; WEFT_DEAD_AFTER is 1 s. Only a rank that was
// stopped longer, or killed, is declared dead; every wait for it ends in time and names it.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::Checks;

constexpr std::array kAll = {0, 1, 2, 3, 4, 5, 6};
constexpr milliseconds kDeadAfter{1000};

SlotSpec slot_of(const std::string& name) {
  return {.name = name, .dtype = DType::i64, .shape = {1}};
}

/// The time until `reached` returns true; nullopt if that takes longer than `limit`.
template <typename Reached>
milliseconds time_until(const Reached& reached, milliseconds limit) {
  const auto began = Clock::now();
  while (!reached() && Clock::now() - began < limit) std::this_thread::sleep_for(milliseconds(1));
  return std::chrono::duration_cast<milliseconds>(Clock::now() - began);
}

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

PeerHealth health(const World& world, std::size_t rank) {
  return world.report().paths[rank].health;
}

/// Whether the rank is on this host. Another host's processes show their state by silence alone.
bool is_here(const World& world, int rank) { return world.host(rank) == world.host(world.rank()); }

/// A member that is asked for the group's survivors names the one that holds all up, not the
/// leader, rank 1.
void shrink_with_a_stopped_rank(const World& world, Checks& checks) {
  constexpr std::array kPlaces{1, 0, 3};
  const Status late =
      world.group().subset(kPlaces).shrink(Deadline::after(milliseconds(20))).status();
  checks.expect(late.code() == Code::timeout && late.detail().peer == 3,
                "shrink() with a stopped rank: " + late.text());
}

void stop_and_continue(const World& world, Checks& checks, pid_t pid) {
  const bool here = is_here(world, 3);
  kill(pid, SIGSTOP);
  const auto took =
      time_until([&] { return health(world, 3) == PeerHealth::suspect; }, milliseconds(800));
  checks.expect(took < milliseconds(here ? 500 : 800),
                "a stopped rank became suspect only after " + std::to_string(took.count()) + " ms");
  checks.expect(mentions(world.report().paths[3].condition, here ? "stopped" : "silent"),
                "its condition: " + world.report().paths[3].condition);
  shrink_with_a_stopped_rank(world, checks);
  std::this_thread::sleep_for(milliseconds(here ? 300 : 50));
  kill(pid, SIGCONT);
  time_until([&] { return health(world, 3) == PeerHealth::alive; }, seconds(2));
  checks.expect(health(world, 3) == PeerHealth::alive, "a continued rank is still suspect");
}

/// A separate process pauses all ranks, since this one is stopped with the others.
void pause_all(const World& world, Checks& checks) {
  std::string pids;
  for (const PathReport& path : world.report().paths) pids += ' ' + std::to_string(path.pid);
  const auto began = Clock::now();
  checks.expect(
      std::system(("(kill -STOP" + pids + "; sleep 2.5; kill -CONT" + pids + ") &").c_str()) == 0,
      "no shell");
  // Twice the span again: no rank is declared dead later, either.
  while (Clock::now() - began < milliseconds(2500) + 2 * kDeadAfter)
    std::this_thread::sleep_for(milliseconds(20));
  const Status all = world.alive(kAll);
  checks.expect(all.ok(), "after a pause of all ranks: " + all.text());
}

void await_peer_status(const World& world, Checks& checks, int rank, milliseconds limit,
                       const std::string& why, Code code = Code::peer_failed) {
  const auto took =
      time_until([&] { return !world.alive(std::span(&rank, 1)).ok(); }, limit + seconds(5));
  const Status peer_status = world.alive(std::span(&rank, 1));
  checks.expect(took <= limit, "rank " + std::to_string(rank) + " was found dead after " +
                                   std::to_string(took.count()) + " ms");
  checks.expect(peer_status.code() == code && mentions(peer_status.text(), why),
                "its status: " + peer_status.text());
  std::printf("rank %d: found dead after %ld ms\n", rank, static_cast<long>(took.count()));
}

/// The members that are left agree on the new group.
Group agree(const World& world, Checks& checks, const Group& group, const std::vector<int>& left) {
  const auto agreed = group.shrink(Deadline::after(seconds(10)));
  checks.expect(agreed.ok(), agreed.status().text());
  const auto members = agreed->members();
  checks.expect(std::vector(members.begin(), members.end()) == left &&
                    agreed->place_of(world.rank()) == agreed->rank() &&
                    agreed->epoch() == group.epoch() + 1,
                "the survivors are " + std::to_string(agreed->size()));
  return *agreed;
}

void conduct(World& world, Checks& checks) {
  const auto pid = [&](std::size_t rank) { return world.report().paths[rank].pid; };
  auto slot = world.expose(slot_of("from 3"));
  auto done = world.attach(1, slot_of("done"));
  stop_and_continue(world, checks, pid(3));
  checks.expect(slot.wait().ok(), "what a stopped rank put is lost");
  pause_all(world, checks);
  const bool here = is_here(world, 3);
  const milliseconds soon{here ? 100 : 1000};
  // Before any rank has failed: ranks that leave later do so because of that one.
  kill(pid(4), SIGUSR1);
  await_peer_status(world, checks, 4, soon, "exit(3)", Code::peer_left);
  kill(pid(6), SIGTERM);
  await_peer_status(world, checks, 6, soon + milliseconds(400), "has left the job",
                    Code::peer_left);
  kill(pid(5), SIGTERM);
  // A launcher sends SIGTERM to all other ranks when a rank has ended this way.
  await_peer_status(world, checks, 5, soon, "was ended by SIGTERM, because rank 4 (host ");
  kill(pid(2), SIGKILL);
  await_peer_status(world, checks, 2, soon, here ? "died" : "process ended");
  // While a rank is only silent, a majority of the last group must go on.
  const Group three = agree(world, checks, world.group(), {0, 1, 3});
  const pid_t stopped = pid(3);
  kill(stopped, SIGSTOP);
  await_peer_status(world, checks, 3, kDeadAfter + seconds(2), here ? "stopped" : "silent");
  // Rank 3 on this host is killed; on another host the rank finds that it is fenced, and ends by
  // itself. Continue rank 3 only after rank 1 has given it up too, by rank 1's own clock.
  if (!here) {
    std::this_thread::sleep_for(milliseconds(800));
    kill(stopped, SIGCONT);
  }
  agree(world, checks, three, {0, 1});
  const Tensor one = world.allocate(DType::i64, {1});
  done.put(one).wait().or_throw();
}

/// Waits for messages that the failing ranks never send.
void watch(World& world, Checks& checks) {
  auto from_three = world.attach(3, slot_of("never"));
  auto done = world.expose(slot_of("done"));
  const auto told = done.wait(Deadline::after(seconds(30)));
  checks.expect(told.ok(), told.status().text());
  const Tensor one = world.allocate(DType::i64, {1});
  const Status put = from_three.put(one).wait();
  checks.expect(put.code() == Code::peer_failed && mentions(put.text(), "rank 3") &&
                    mentions(put.text(), is_here(world, 3) ? "stopped" : "silent"),
                "a put to a rank that was stopped for too long: " + put.text());
  agree(world, checks, agree(world, checks, world.group(), {0, 1, 3}), {0, 1});
}

volatile sig_atomic_t told = 0;
void note(int /*signal*/) { told = 1; }

/// Ends on its signal: by exit(), by SIGTERM, or by its own leave on SIGTERM.
void end_by_signal(const World& world) {
  if (world.rank() == 4) signal(SIGUSR1, note);
  while (told == 0) std::this_thread::sleep_for(milliseconds(2));
  if (world.rank() == 4) std::exit(3);
}

void fall(World& world, Checks& checks) {
  auto never = world.expose(slot_of("never"));
  if (world.rank() == 3) {
    auto remote = world.attach(0, slot_of("from 3"));
    const Tensor one = world.allocate(DType::i64, {1});
    for (int n = 0; n < 20; ++n) {
      std::this_thread::sleep_for(milliseconds(50));
      if (n == 19) remote.put(one).wait().or_throw();
    }
  }
  if (world.rank() != 3) return std::this_thread::sleep_for(seconds(60));
  // A rank that was stopped for too long on another host runs again later: the others have given it
  // up.
  constexpr std::array kStays = {0, 1};
  time_until([&] { return !world.alive(kStays).ok(); }, seconds(60));
  const Status peer_status = world.alive(kStays);
  checks.expect(
      peer_status.code() == Code::fenced && mentions(peer_status.text(), "has given this rank up"),
      "a rank that was given up: " + peer_status.text());
  // The group of three was agreed on before this rank was stopped.
  const auto three = world.group().shrink(Deadline::after(seconds(10)));
  const Status shrunk =
      three.ok() ? three->shrink(Deadline::after(seconds(10))).status() : Status();
  checks.expect(shrunk.code() == Code::fenced && mentions(shrunk.text(), "has given this rank up"),
                "shrink() on a rank that was given up: " + shrunk.text());
  std::printf("rank %d was fenced\n", world.rank());
}

}  // namespace

int main() {
  // Rank 6 installed a handler of its own before it joined: weft's handler calls it, and it
  // decides.
  if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK"); rank != nullptr && *rank == '6')
    signal(SIGTERM, note);
  return tests::run_as_rank([](World& world, Checks& checks) {
    if (world.rank() == 0)
      conduct(world, checks);
    else if (world.rank() == 1)
      watch(world, checks);
    else if (world.rank() < 4)
      fall(world, checks);
    else
      end_by_signal(world);
    if (checks.passed()) std::printf("rank %d held\n", world.rank());
  });
}
