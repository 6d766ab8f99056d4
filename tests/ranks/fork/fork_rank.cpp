// Ranks that fork while slots, arrivals, pending puts and tables live. In the child every call
// returns `forked` and every destructor returns; the parent goes on as before the fork: fork_rank
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"
#include "tests/ranks/fork/graph_in_fork.hpp"
#include "weft/pslib.hpp"
#include "weft/rendezvous.hpp"
#include "weft/tracing.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;

const SlotSpec kPut{.name = "put", .dtype = DType::f32, .shape = {1000}, .depth = 2};
const SlotSpec kHeldUp{.name = "held up", .dtype = DType::i64, .shape = {1}};
const PublishedSpec kPublished{
    .name = "published", .dtype = DType::f32, .shape = {1000}, .depth = 2};

/// The world outlives main(), so exit() in a child destroys it too.
std::optional<World> global_world;

/// A rank with every object that a program may hold when it forks.
struct Rank {
  Rank(World& w, const std::string& checkpoints)
      : world(w),
        peer(1 - w.rank()),
        put_slot(w.expose(kPut)),
        held_up_slot(w.expose(kHeldUp)),
        published(w.expose_published(kPublished)),
        writer(w.attach(peer, kPut)),
        held_up_writer(w.attach(peer, kHeldUp)),
        reader(w.attach_published(peer, kPublished)),
        tensor(w.allocate(kPut.dtype, kPut.shape)),
        adopted(w.adopt(own.data(), DType::u8, {64}, {})),
        container({1, 2, 3}, &w.memory()),
        tracer(w),
        rendezvous(Rendezvous::open(w)),
        server(w),
        table(server.table("model", {{"w", {64}}}, pslib::Optimizer::sgd(0.1F))),
        graph(std::in_place, w, table, checkpoints) {
    table.initialize().or_throw();
    const auto running = tracer.enter("node");
    traced = tracer.allocate(DType::f32, {8});
  }

  /// One exchange with the other rank, over every kind of slot.
  void step(Checks& checks) {
    tests::fill(tensor, tests::pattern_of(world.rank(), 0, steps));
    writer.put(tensor).wait().or_throw();
    arrival = put_slot.wait().value();
    checks.expect(tests::holds(arrival.tensor(), tests::pattern_of(peer, 0, steps)), "a put");
    tests::fill(published.next().value(), tests::pattern_of(world.rank(), 1, steps));
    published.publish().or_throw();
    view = {};
    do view = reader.view().value();
    while (view.sequence() <= steps);
    checks.expect(tests::holds(view.tensor(), tests::pattern_of(peer, 1, steps)), "a view");
    table.push_pull().or_throw();
    rendezvous.send(peer, "key", steps, tensor).or_throw();
    const auto received = rendezvous.recv(peer, "key", steps).value();
    checks.expect(tests::holds(received.tensor, tests::pattern_of(peer, 0, steps)), "a recv");
    rendezvous.serve().or_throw();
    graph->step(checks);
    ++steps;
  }

  World& world;
  const int peer;
  Slot put_slot;
  Slot held_up_slot;
  PublishedSlot published;
  RemoteSlot writer;
  RemoteSlot held_up_writer;
  PublishedReader reader;
  Tensor tensor;
  std::array<std::uint8_t, 64> own{};
  Tensor adopted;
  std::pmr::vector<int> container;
  dataflow::TracingAllocator tracer;
  Tensor traced;
  Rendezvous rendezvous;
  pslib::ParameterServer server;
  pslib::Table table;
  std::optional<weft::tests::GraphInFork> graph;
  Arrival arrival;
  Arrival view;
  Request pending;
  std::uint64_t steps = 0;
};

Code thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::ok;
}

void expect_forked(Checks& checks, const std::string& call, Code code) {
  checks.expect(code == Code::forked, call + " in a fork says " + std::string(name(code)));
}

void check_world(World& world, Checks& checks) {
  const std::array<int, 1> nobody{};
  expect_forked(checks, "allocate", thrown_by([&] { (void)world.allocate(DType::u8, {10}); }));
  expect_forked(checks, "expose",
                thrown_by([&] { (void)world.expose({.name = "new", .shape = {1}}); }));
  expect_forked(checks, "adopt",
                thrown_by([&] { (void)world.adopt(&checks, DType::u8, {1}, {}); }));
  expect_forked(checks, "expose in own memory",
                thrown_by([&] { (void)world.expose({.name = "new", .shape = {1}}, Tensor{}); }));
  bool refused = false;
  try {
    (void)world.memory().allocate(64);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  checks.expect(refused, "an arena gives no memory in a fork");
  expect_forked(checks, "attach", thrown_by([&] { (void)world.attach(0, kPut); }));
  expect_forked(checks, "attach by name", thrown_by([&] { (void)world.attach(0, "put"); }));
  expect_forked(checks, "event_fd", thrown_by([&] { (void)world.event_fd(); }));
  expect_forked(checks, "report", thrown_by([&] { (void)world.report(); }));
  expect_forked(checks, "host", thrown_by([&] { (void)world.host(0); }));
  expect_forked(checks, "alive", world.alive(nobody).code());
  expect_forked(checks, "leave", world.leave().code());
  expect_forked(checks, "join", thrown_by([] { (void)World::join(); }));
  world.clear_event();
  const auto text = world.leave().text();
  checks.expect(text.find("a fork of rank " + std::to_string(world.rank())) != std::string::npos,
                "the error names the rank: " + text);
}

void check_slots(Rank& rank, Checks& checks) {
  const std::array<int, 1> peer{rank.peer};
  std::array<Slot*, 1> slots{&rank.put_slot};
  std::array<PublishedReader*, 1> remotes{&rank.reader};
  std::array<Request*, 1> requests{&rank.pending};
  const std::array<SlotRun, 1> runs{};
  const std::vector<Tensor> parts{rank.tensor};
  expect_forked(checks, "wait_any slots", rank.world.wait_any(slots).code());
  expect_forked(checks, "wait_any remote slots", rank.world.wait_any(remotes).code());
  expect_forked(checks, "wait_any requests", rank.world.wait_any(requests).code());
  expect_forked(
      checks, "wait_any of a set",
      rank.world.wait_any(WaitSet{.slots = slots, .requests = requests, .readers = remotes})
          .code());
  expect_forked(checks, "wait", rank.put_slot.wait().code());
  expect_forked(checks, "next", rank.published.next().code());
  expect_forked(checks, "publish", rank.published.publish().code());
  expect_forked(checks, "slot also_needs", thrown_by([&] { rank.put_slot.also_needs(peer); }));
  expect_forked(checks, "allocate_with", thrown_by([&] { rank.put_slot.allocate_with({}); }));
  checks.expect(!rank.put_slot.ready() && !rank.reader.ready() && rank.published.readers() == 0,
                "nothing is ready in a fork");
  expect_forked(checks, "put", rank.writer.put(rank.tensor).wait().code());
  expect_forked(checks, "put of parts", rank.writer.put(parts).wait().code());
  expect_forked(checks, "view", rank.reader.view().code());
  expect_forked(checks, "get", rank.reader.get(rank.tensor).code());
  expect_forked(checks, "get of runs", rank.reader.get(runs).code());
  expect_forked(checks, "remote also_needs", thrown_by([&] { rank.reader.also_needs(peer); }));
  checks.expect(rank.pending.test(), "a request ends in a fork");
  expect_forked(checks, "request wait", rank.pending.wait().code());
  expect_forked(checks, "request cancel", rank.pending.cancel().code());
}

void check_rendezvous(Rank& rank, Checks& checks) {
  const std::array<KeyStep, 2> wanted{{{"key", 100}, {"key", 101}}};
  Rendezvous& exchange = rank.rendezvous;
  expect_forked(checks, "open", thrown_by([&] { (void)Rendezvous::open(rank.world); }));
  expect_forked(checks, "send", exchange.send(rank.peer, "key", 100, rank.tensor).code());
  expect_forked(checks, "send_dead", exchange.send_dead(rank.peer, "key", 100).code());
  expect_forked(checks, "send_error",
                exchange.send_error(rank.peer, "key", 100, Code::system, "no").code());
  expect_forked(checks, "rendezvous serve", exchange.serve().code());
  expect_forked(checks, "recv", exchange.recv(rank.peer, "key", 100).code());
  for (const auto& received : exchange.recv(rank.peer, wanted))
    expect_forked(checks, "recv of several", received.code());
  expect_forked(checks, "rendezvous cancel", exchange.cancel(rank.peer, "key", 100).code());
  checks.expect(!exchange.lent(rank.peer, "key", 100), "nothing is lent in a fork");
}

void check_pslib(Rank& rank, Checks& checks) {
  std::array<pslib::Table*, 1> tables{&rank.table};
  expect_forked(checks, "parameter", thrown_by([&] { (void)rank.table.parameter("w"); }));
  expect_forked(checks, "gradient", thrown_by([&] { (void)rank.table.gradient("w"); }));
  expect_forked(checks, "initialize", rank.table.initialize().code());
  expect_forked(checks, "push", rank.table.push().code());
  expect_forked(checks, "pull", rank.table.pull().code());
  expect_forked(checks, "push_pull", rank.table.push_pull().code());
  expect_forked(checks, "wait_updated", rank.table.wait_updated().code());
  expect_forked(checks, "table view", rank.table.view("w").code());
  expect_forked(checks, "view_piece", rank.table.view_piece(rank.table.pieces().front()).code());
  expect_forked(checks, "serve", rank.server.serve(tables).code());
  expect_forked(checks, "parameter server",
                thrown_by([&] { pslib::ParameterServer(rank.world, {}, "other"); }));
  expect_forked(checks, "table", thrown_by([&] {
                  (void)rank.server.table("t", {{"w", {1}}}, pslib::Optimizer::sgd(1.0F));
                }));
}

void check_tracing(Rank& rank, Checks& checks) {
  dataflow::TracingAllocator& tracer = rank.tracer;
  expect_forked(checks, "tracing", thrown_by([&] { dataflow::TracingAllocator(rank.world); }));
  expect_forked(checks, "enter", thrown_by([&] { (void)tracer.enter("node"); }));
  expect_forked(checks, "traced allocate",
                thrown_by([&] { (void)tracer.allocate(DType::u8, {1}); }));
  expect_forked(checks, "to_send", thrown_by([&] { (void)tracer.to_send(rank.traced); }));
  expect_forked(checks, "mark_cut", thrown_by([&] { tracer.mark_cut("node", 0); }));
  expect_forked(checks, "next_step", thrown_by([&] { tracer.next_step(); }));
  expect_forked(checks, "tracing report", thrown_by([&] { (void)tracer.report(); }));
  checks.expect(tracer.counters().plain_allocations == 1, "counters are readable in a fork");
}

enum class End { by_return, by_exit, at_once, by_abort, by_touch };

/// The child's part; by_return returns, so that every destructor runs.
void run_child(Rank& rank, End end) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  Checks checks(rank.world.rank());
  check_world(rank.world, checks);
  check_slots(rank, checks);
  check_rendezvous(rank, checks);
  check_pslib(rank, checks);
  check_tracing(rank, checks);
  rank.graph->check([&](const std::string& call, Code code) { expect_forked(checks, call, code); });
  if (!checks.passed()) _exit(1);
  switch (end) {
    case End::by_return:
      return;
    case End::by_exit:
      std::exit(0);
    case End::at_once:
      _exit(0);
    case End::by_abort:
      std::abort();
    case End::by_touch:
      static_cast<volatile std::byte*>(rank.tensor.data())[0] = std::byte{1};
      _exit(1);
  }
}

bool ended_as_it_should(int status, End end) {
  if (end == End::by_abort) return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  if (end == End::by_touch) return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Returns true in a child that is to return from main.
bool fork_and_go_on(Rank& rank, Checks& checks, End end) {
  const pid_t child = fork();
  if (child == 0) {
    run_child(rank, end);
    return true;
  }
  // Step while the child lives, not only after its end.
  rank.step(checks);
  int status = 0;
  const bool ended = waitpid(child, &status, 0) == child && ended_as_it_should(status, end);
  checks.expect(ended, "child " + std::to_string(static_cast<int>(end)) + " ended with status " +
                           std::to_string(status));
  for (int i = 0; i < 5; ++i) rank.step(checks);
  return false;
}

/// The links in /proc/self/fd that a program started by this process sees.
std::vector<std::string> inherited() {
  std::vector<std::string> links;
  std::FILE* ls = popen("ls -l /proc/self/fd", "r");
  std::array<char, 512> line{};
  while (ls != nullptr && std::fgets(line.data(), line.size(), ls) != nullptr) {
    const std::string text = line.data();
    if (const auto at = text.find(" -> "); at != text.npos) links.push_back(text.substr(at + 4));
  }
  if (ls != nullptr) pclose(ls);
  return links;
}

void expect_nothing_new(Checks& checks, const std::vector<std::string>& before) {
  const auto after = inherited();
  checks.expect(!before.empty() && after.size() == before.size(),
                "an executed child has " + std::to_string(after.size()) + " descriptors, not " +
                    std::to_string(before.size()));
  for (const auto& link : after)
    checks.expect(link.find("weft") == link.npos && link.find("anon_inode") == link.npos,
                  "an executed child has inherited " + link);
}

/// A folder for both ranks, which rank 0's process names.
std::filesystem::path folder_of(const World& world) {
  const int pid = world.rank() == 0 ? getpid() : world.report().paths.at(0).pid;
  return std::filesystem::temp_directory_path() / ("weft-fork-" + std::to_string(pid));
}

int run() {
  const auto before = inherited();
  global_world = World::join();
  World& world = *global_world;
  Checks checks(world.rank());
  const std::filesystem::path folder = folder_of(world);
  {
    Rank rank(world, folder.string());
    const auto one = world.allocate(kHeldUp.dtype, kHeldUp.shape);
    rank.held_up_writer.put(one).wait().or_throw();
    rank.pending = rank.held_up_writer.put(one);  // waits for the credit of the first
    rank.step(checks);
    expect_nothing_new(checks, before);
    for (const End end : {End::by_return, End::by_exit, End::at_once, End::by_abort, End::by_touch})
      if (fork_and_go_on(rank, checks, end)) return 0;
    rank.arrival = {};
    rank.view = {};
    for (int i = 0; i < 2; ++i)
      checks.expect(rank.held_up_slot.wait().ok(), "the puts of before the forks arrive");
    checks.expect(rank.pending.wait().ok(), "the put that was pending ends");
    std::array<int, 1> peer{rank.peer};
    checks.expect(world.alive(peer).ok(), "the peer lives");
    auto late = world.expose({.name = "late", .shape = {4}});
    auto late_writer = world.attach(rank.peer, "late");
    late_writer.put(world.allocate(DType::f32, {4})).wait().or_throw();
    checks.expect(late.wait().ok(), "a slot made after the forks");
    checks.expect(world.report().edges.size() > 6, "report after forks");
    rank.graph.reset();  // with its last checkpoint, before rank 0 removes the folder
    const auto left = world.leave(Deadline::after(std::chrono::seconds(20)));
    checks.expect(left.ok(), "leave: " + left.text());
  }
  if (world.rank() == 0) std::filesystem::remove_all(folder);
  return checks.passed() ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "failed: %s\n", error.what());
    return 1;
  }
}
