// gpu_peer_dies owner|writer: that rank of two is killed while the writer's GPU copies into the
// owner's. The other goes on, and nothing is written into its memory any more.
// gpu_peer_dies writer_under_mps: the same under MPS, where what the writer's GPU had begun goes
// on.
// gpu_peer_dies other_writer_leaves: of four ranks 1 and 2 write into slots of one chunk, under
// MPS. Rank 1 is killed, and 2 leaves in order: rank 3 may write where 2 did.
// gpu_peer_dies working_writer: a rank leaves while its GPU still copies into the owner's.
// gpu_peer_dies replaying_owner|replaying_writer: the same while both replay captured graphs.
// gpu_peer_dies replaying_publisher|replaying_reader: the same while both replay captured graphs
// that publish and get versions. gpu_peer_dies member MS: rank 1 is killed that long after it has
// begun an all_reduce that both ranks' GPUs carry out. gpu_peer_dies stream MS: the same while the
// ranks' streams run it. gpu_peer_dies graph MS: the same while both replay a captured graph of it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/cuda/api/load.hpp"
#include "tests/cuda/driver/control.hpp"
#include "tests/cuda/world/default_stream.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/collective.hpp"
#include "weft/published_slot.hpp"

namespace weft {
namespace {

constexpr std::int64_t kElements = 100'000;
const SlotSpec kSpec{.name = "in", .shape = {kElements}, .depth = 2, .memory = Memory::gpu()};

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

Tensor filled(World& world, float value) {
  std::vector<float> values(kElements, value);
  const Tensor tensor = world.allocate(DType::f32, {kElements}, Memory::gpu());
  world.copy(Tensor::wrap(values.data(), DType::f32, {kElements}), tensor);
  return tensor;
}

bool holds(World& world, const Tensor& tensor, float value) {
  std::vector<float> values(kElements);
  world.copy(tensor, Tensor::wrap(values.data(), DType::f32, {kElements}));
  return values == std::vector<float>(kElements, value);
}

std::uint64_t quarantined(World& world, const std::string& sort) {
  std::uint64_t bytes = 0;
  for (const ArenaReport& arena : world.report().arenas)
    if (arena.sort.starts_with(sort)) bytes += arena.quarantined_bytes;
  return bytes;
}

/// Under MPS the dead writer's GPU goes on writing into the slot.
void expect_quarantine(World& world, tests::Checks& checks) {
  try {
    (void)world.attach(world.rank(), kSpec);
    checks.expect(false, "another writer attaches");
  } catch (const Error& error) {
    checks.expect(error.status().code() == Code::peer_failed &&
                      error.status().text().find("in quarantine") != std::string::npos,
                  "attach: " + error.status().text());
  }
}

void own(World& world, tests::Checks& checks, bool dies, bool under_mps) {
  {
    Slot slot = world.expose(kSpec);
    checks.expect(holds(world, slot.wait().value().tensor(), 1), "the first tensor arrives");
    if (dies) die();
    const Status end = slot.wait().status();
    checks.expect(end.code() == Code::peer_failed, "wait: " + end.text());
    if (under_mps) expect_quarantine(world, checks);
  }
  // The slot's memory serves others now, unless its writer may still write there.
  std::vector<Tensor> next;
  for (float value = 5; value < 9; ++value) next.push_back(filled(world, value));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (std::size_t i = 0; i < next.size(); ++i)
    checks.expect(holds(world, next[i], 5 + static_cast<float>(i)), "the memory is the owner's");
  for (const char* sort : {"GPU", "control"}) {
    const std::uint64_t held = quarantined(world, sort);
    checks.expect((held != 0) == under_mps,
                  sort + (": " + std::to_string(held)) + " bytes are in quarantine");
  }
}

void write(World& world, tests::Checks& checks, bool dies) {
  RemoteSlot remote = world.attach(0, kSpec);
  for (const auto& edge : world.report().edges) checks.expect(edge.way == "mapped", edge.reason);
  const Tensor tensor = filled(world, 1);
  remote.put(tensor).wait().or_throw();
  Request request = remote.put(tensor);
  if (dies) die();
  Status end = request.wait();
  for (int i = 0; i < 100 && end.ok(); ++i) end = remote.put(tensor).wait();
  checks.expect(end.code() == Code::peer_failed, "put: " + end.text());
  checks.expect(holds(world, tensor, 1), "the GPU still works");
}

SlotSpec named(const char* name) {
  SlotSpec spec = kSpec;
  spec.name = name;
  return spec;
}

void wait_until_gone(World& world, int rank) {
  try {
    (void)world.attach(rank, named("none"), Deadline::after(std::chrono::seconds(40)));
  } catch (const Error&) {
    // By then it has left.
  }
}

void own_for_two(World& world, tests::Checks& checks) {
  Slot killed = world.expose(named("killed"));
  Slot left = world.expose(named("left"));
  (void)killed.wait().value();
  checks.expect(holds(world, left.wait().value().tensor(), 2), "the second writer's tensor");
  const Status end = killed.wait().status();
  checks.expect(end.code() == Code::peer_failed, "wait: " + end.text());
  checks.expect(quarantined(world, "GPU") != 0, "the chunk is in quarantine");
  wait_until_gone(world, 2);
  Slot go = world.expose(named("go"));
  Arrival last;
  for (int i = 0; i < 1000 && !last; ++i) {
    auto arrival = left.wait(Deadline::after(std::chrono::milliseconds(50)));
    if (arrival.ok()) last = std::move(arrival).value();
    // Until the third one is there, waits end at once.
    if (!last) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  checks.expect(static_cast<bool>(last) && holds(world, last.tensor(), 3),
                "the third writer's tensor");
}

void write_as_one_of_three(World& world, tests::Checks& checks) {
  const int me = world.rank();
  if (me == 3) (void)world.attach(0, named("go"));
  RemoteSlot remote = world.attach(0, named(me == 1 ? "killed" : "left"));
  const Tensor tensor = filled(world, static_cast<float>(me));
  remote.put(tensor).wait().or_throw();
  for (const auto& edge : world.report().edges)
    if (edge.slot != "go") checks.expect(edge.way == "mapped", edge.reason);
  if (me != 1) return;
  Request request = remote.put(tensor);
  die();
}

void own_for_a_leaver(World& world, tests::Checks& checks) {
  Slot slot = world.expose(kSpec);
  (void)slot.wait().value();
  wait_until_gone(world, 1);
  expect_quarantine(world, checks);
  for (const char* sort : {"GPU", "control"})
    checks.expect(quarantined(world, sort) != 0, std::string(sort) + ": nothing is in quarantine");
}

void leave_while_copying(World& world, tests::Checks& checks) {
  RemoteSlot remote = world.attach(0, kSpec);
  const Tensor tensor = filled(world, 1);
  remote.put(tensor).wait().or_throw();
  stand_in::control()->stop_clock(true);
  Request request = remote.put(tensor);
  const Status left = world.leave(Deadline::after(std::chrono::seconds(40)));
  checks.expect(left.ok(), "leave: " + left.text());
  stand_in::control()->stop_clock(false);
}

/// A graph of weft's calls, on a stream of the application's.
class OwnGraph {
 public:
  OwnGraph(int gpu, const std::function<void(Stream)>& calls) : gpu_(gpu) {
    act_for_application(true);
    p2p::cuda::Context context = nullptr;
    is_good_ = driver_.retain_context(&context, gpu_) == kOk &&
               driver_.push_context(context) == kOk &&
               driver_.create_stream(&stream_, p2p::cuda::kStreamNonBlocking) == kOk &&
               driver_.begin_capture(stream_, p2p::cuda::CaptureMode::thread_local_) == kOk;
    calls(Stream::cuda(stream_));
    p2p::cuda::Graph graph = nullptr;
    is_good_ = is_good_ && driver_.end_capture(stream_, &graph) == kOk &&
               driver_.instantiate_graph(&executable_, graph, 0) == kOk &&
               driver_.destroy_graph(graph) == kOk;
  }
  OwnGraph(const OwnGraph&) = delete;
  OwnGraph& operator=(const OwnGraph&) = delete;
  ~OwnGraph() {
    p2p::cuda::Context popped = nullptr;
    (void)driver_.destroy_graph_exec(executable_);
    (void)driver_.destroy_stream(stream_);
    (void)driver_.pop_context(&popped);
    (void)driver_.release_context(gpu_);
    act_for_application(false);
  }

  void launch() { is_good_ = is_good_ && driver_.launch_graph(executable_, stream_) == kOk; }
  void synchronize() { is_good_ = is_good_ && driver_.synchronize_stream(stream_) == kOk; }
  bool is_good() const { return is_good_; }

 private:
  static constexpr auto kOk = p2p::cuda::DriverStatus::success;
  static void act_for_application(bool on) {
    if (auto* control = stand_in::control()) control->act_for_application(on);
  }

  const p2p::cuda::Driver& driver_ = **p2p::cuda::load_driver();
  const int gpu_;
  p2p::cuda::StreamHandle stream_ = nullptr;
  p2p::cuda::GraphExec executable_ = nullptr;
  bool is_good_ = false;
};

void replay_waits(World& world, tests::Checks& checks, bool dies) {
  Slot slot = world.expose(kSpec);
  checks.expect(holds(world, slot.wait().value().tensor(), 1), "the first tensor arrives");
  const std::uint32_t* outcome = nullptr;
  Arrival arrival;
  OwnGraph graph(slot.spec().memory.ordinal(), [&](Stream stream) {
    arrival = slot.wait_on(stream).value();
    outcome = arrival.outcome();
  });
  std::uint32_t seen = 0;
  for (int i = 0; i < 1000 && seen == 0; ++i) {
    graph.launch();
    if (dies && i == 2) die();
    graph.synchronize();
    seen = *outcome;
  }
  checks.expect(graph.is_good(), "the graph works");
  checks.expect(seen == static_cast<std::uint32_t>(Code::peer_failed),
                "outcome " + std::to_string(seen));
  graph.launch();
  graph.synchronize();
  checks.expect(*outcome == seen, "a later replay fails too");
  const Status end = slot.wait().status();
  checks.expect(end.code() == Code::peer_failed, "wait: " + end.text());
}

void replay_puts(World& world, tests::Checks& checks, bool dies) {
  RemoteSlot remote = world.attach(0, kSpec);
  const Tensor tensor = filled(world, 1);
  remote.put(tensor).wait().or_throw();
  OwnGraph graph(tensor.memory().ordinal(),
                 [&](Stream stream) { remote.put(tensor, stream).wait_on(stream).or_throw(); });
  for (int i = 0; i < 6; ++i) {
    graph.launch();
    if (dies && i == 2) die();
  }
  graph.synchronize();
  Status end;
  for (int i = 0; i < 1000 && end.ok(); ++i) {
    graph.launch();
    graph.synchronize();
    end = remote.put(tensor).wait();
  }
  checks.expect(graph.is_good(), "the graph works");
  checks.expect(end.code() == Code::peer_failed, "put: " + end.text());
  graph.launch();
  graph.synchronize();
  checks.expect(holds(world, tensor, 1), "the GPU still works");
}

void replay_publications(World& world, tests::Checks& checks, bool dies) {
  PublishedSlot slot = world.expose_published(
      {.name = "news", .shape = {kElements}, .depth = 1, .memory = Memory::gpu()});
  const Tensor tensor = slot.next().value();
  OwnGraph graph(tensor.memory().ordinal(),
                 [&](Stream stream) { slot.publish(stream).or_throw(); });
  while (slot.readers() == 0) std::this_thread::yield();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; slot.readers() != 0 && std::chrono::steady_clock::now() < until; ++i) {
    graph.launch();
    if (dies && i == 20) die();
    graph.synchronize();  // the reader may be dead, and have viewed the one buffer
  }
  checks.expect(slot.readers() == 0, "the reader is gone");
  for (int i = 0; i < 5; ++i) graph.launch();
  graph.synchronize();
  checks.expect(graph.is_good(), "the graph works");
  checks.expect(slot.next().ok(), "no replay has failed");
  checks.expect(holds(world, filled(world, 4), 4), "the GPU still works");
}

void replay_gets(World& world, tests::Checks& checks, bool dies) {
  PublishedReader reader = world.attach_published(0, "news");
  const Tensor into = filled(world, 1);
  const std::uint32_t* outcome = nullptr;
  OwnGraph graph(into.memory().ordinal(), [&](Stream stream) {
    reader.get(into, stream).or_throw();
    outcome = reader.outcome();
  });
  std::uint32_t seen = 0;
  for (int i = 0; i < 10'000 && seen == 0; ++i) {
    graph.launch();
    graph.synchronize();
    seen = *outcome;
    if (!dies || i != 5) continue;
    const Arrival viewed = reader.view().value();
    graph.launch();
    die();
  }
  checks.expect(graph.is_good(), "the graph works");
  checks.expect(seen == static_cast<std::uint32_t>(Code::peer_failed),
                "outcome " + std::to_string(seen));
  graph.launch();
  graph.synchronize();
  checks.expect(*outcome == seen, "a later replay fails too");
  const Status end = reader.view().status();
  checks.expect(end.code() == Code::peer_failed, "view: " + end.text());
  checks.expect(holds(world, filled(world, 4), 4), "the GPU still works");
}

/// Under MPS the dead member's GPU may go on writing.
void expect_settled(Collectives& group, tests::Checks& checks) {
  const char* const options = std::getenv("WEFT_TEST_CUDA");
  const bool under_mps =
      options != nullptr && std::string(options).find(" mps") != std::string::npos;
  const Status end = group.settle();
  checks.expect(end.code() == (under_mps ? Code::peer_failed : Code::ok), "settle: " + end.text());
}

void combine(World& world, tests::Checks& checks, std::chrono::milliseconds lives, bool by_stream) {
  auto group = Collectives::open(world);
  const Tensor tensor = filled(world, 2);
  const tests::DefaultStream stream(tensor.memory());
  Plan plan = group.plan(all_reduce(tensor, Reduction::max));
  const auto run = [&] {
    if (!by_stream) return plan.run();
    Status status = plan.start(tests::DefaultStream::get());
    checks.expect(stream.synchronize(), "the stream ends");
    return status;
  };
  for (int i = 0; i < 3; ++i) run().or_throw();
  checks.expect(group.staged_bytes() == 0, "the GPUs carry the calls out");
  if (world.rank() == 1) {
    std::thread killer([lives] {
      std::this_thread::sleep_for(lives);
      die();
    });
    for (;;) run().or_throw();
  }
  const auto begin = std::chrono::steady_clock::now();
  Status end;
  for (int i = 0; i < 1000 && end.ok(); ++i) end = run();
  checks.expect(end.code() == Code::peer_failed && end.detail().peer == 1, "plan: " + end.text());
  checks.expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10),
                "the survivor ends in time");
  if (by_stream) checks.expect(*plan.outcome() != 0, "the GPU is told");
  expect_settled(group, checks);
  checks.expect(holds(world, tensor, 2), "the GPU still works");
  const Tensor next = filled(world, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  checks.expect(holds(world, next, 3), "the memory is the survivor's");
}

void replay_plan(World& world, tests::Checks& checks, std::chrono::milliseconds lives) {
  auto group = Collectives::open(world);
  const Tensor tensor = filled(world, 2);
  Plan plan = group.plan(all_reduce(tensor, Reduction::max));
  OwnGraph graph(tensor.memory().ordinal(), [&](Stream stream) { plan.start(stream).or_throw(); });
  const auto replay = [&] {
    graph.launch();
    graph.synchronize();
    return *plan.outcome();
  };
  for (int i = 0; i < 3; ++i) checks.expect(replay() == 0, "the ranks replay");
  if (world.rank() == 1) {
    std::thread killer([lives] {
      std::this_thread::sleep_for(lives);
      die();
    });
    for (;;) (void)replay();
  }
  const auto begin = std::chrono::steady_clock::now();
  std::uint32_t seen = 0;
  for (int i = 0; i < 1000 && seen == 0; ++i) seen = replay();
  checks.expect(seen == static_cast<std::uint32_t>(Code::peer_failed),
                "outcome " + std::to_string(seen));
  checks.expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10),
                "the survivor ends in time");
  const Status end = plan.run();
  checks.expect(end.code() == Code::peer_failed && end.detail().peer == 1, "plan: " + end.text());
  expect_settled(group, checks);
  checks.expect(replay() == seen && graph.is_good(), "later replays end too");
  const Tensor next = filled(world, 3);
  checks.expect(holds(world, tensor, 2) && holds(world, next, 3), "the memory is the survivor's");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  if (argc < 2) return 2;
  const std::string victim = argv[1];
  return tests::run_as_survivor([&](World& world, tests::Checks& checks) {
    if (victim == "other_writer_leaves")
      world.rank() == 0 ? own_for_two(world, checks) : write_as_one_of_three(world, checks);
    else if (victim == "working_writer")
      world.rank() == 0 ? own_for_a_leaver(world, checks) : leave_while_copying(world, checks);
    else if (victim == "member" || victim == "stream")
      combine(world, checks, std::chrono::milliseconds(std::stoi(argv[2])), victim == "stream");
    else if (victim == "graph")
      replay_plan(world, checks, std::chrono::milliseconds(std::stoi(argv[2])));
    else if (victim == "replaying_publisher" || victim == "replaying_reader")
      world.rank() == 0 ? replay_publications(world, checks, victim == "replaying_publisher")
                        : replay_gets(world, checks, victim == "replaying_reader");
    else if (victim.starts_with("replaying"))
      world.rank() == 0 ? replay_waits(world, checks, victim == "replaying_owner")
                        : replay_puts(world, checks, victim == "replaying_writer");
    else if (world.rank() == 0)
      own(world, checks, victim == "owner", victim == "writer_under_mps");
    else
      write(world, checks, victim.starts_with("writer"));
  });
}
