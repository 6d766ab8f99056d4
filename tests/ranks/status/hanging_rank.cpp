// Ranks that hang, each in a way that a mistake in a program leads to: hanging_rank HOW
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "weft/collective.hpp"
#include "weft/group.hpp"
#include "weft/message.hpp"
#include "weft/pslib.hpp"
#include "weft/rendezvous.hpp"
#include "weft/signal.hpp"
#include "weft/world.hpp"

namespace {

using namespace weft;

constexpr auto kLong = std::chrono::seconds(50);

void joined(const World& world) {
  std::printf("joined rank %d pid %d\n", world.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

void linger() { std::this_thread::sleep_for(kLong); }

/// Rank 1 puts a tensor that does not fit, and waits for an answer before it looks at the request.
void put_refused(World& world) {
  const SlotSpec there{.name = "question", .dtype = DType::f32, .shape = {4}};
  const SlotSpec back{.name = "answer", .dtype = DType::f32, .shape = {4}};
  Slot slot = world.expose(world.rank() == 0 ? there : back);
  RemoteSlot remote = world.attach(1 - world.rank(), world.rank() == 0 ? back : there);
  joined(world);
  Request request;
  if (world.rank() == 1) request = remote.put(world.allocate(DType::f32, {3}));
  std::printf("%s\n", slot.wait(Deadline::after(kLong)).status().text().c_str());
  (void)request.wait();
}

/// Rank 2 leaves out the third call.
void call_skipped(World& world) {
  Collectives group = Collectives::open(world);
  const Tensor tensor = world.allocate(DType::f32, {1024});
  for (int i = 0; i < 2; ++i) group.run(barrier()).or_throw();
  joined(world);
  if (world.rank() == 2) return linger();
  (void)group.run(all_reduce(tensor, Reduction::sum), Deadline::after(kLong));
}

/// Rank 1 does not open the group.
void not_opened(World& world) {
  joined(world);
  if (world.rank() == 1) return linger();
  (void)Collectives::open(world, Deadline::after(kLong));
}

/// Rank 0 sends with another tag than rank 1 receives.
void message_unreceived(World& world, std::int64_t elements) {
  Messages messages(world);
  const Tensor tensor = world.allocate(DType::f32, {elements});
  joined(world);
  if (world.rank() == 1) {
    (void)messages.recv(0, 8, tensor, Deadline::after(kLong));
  } else {
    (void)messages.send(1, 7, tensor, Deadline::after(kLong));
    (void)messages.recv(1, 9, tensor, Deadline::after(kLong));
  }
}

/// Each rank takes itself for the root, and does not look at what the call returns.
void wrong_root(World& world) {
  Collectives group = Collectives::open(world);
  const Tensor tensor = world.allocate(DType::f32, {8});
  const SlotSpec spec{.name = "next", .dtype = DType::f32, .shape = {4}};
  Slot slot = world.expose(spec);
  const RemoteSlot remote = world.attach(1 - world.rank(), spec);
  joined(world);
  (void)group.run(broadcast(tensor, world.rank()), Deadline::after(kLong));
  (void)slot.wait(Deadline::after(kLong));
}

/// Workers that go on until one of them is stopped.
void train(World& world) {
  pslib::ParameterServer server(world);
  pslib::Table table = server.table("model", {{"w", {64}}}, pslib::Optimizer::sgd(0.1F));
  table.initialize().or_throw();
  joined(world);
  for (const auto end = Deadline::after(kLong); !end.passed();)
    if (!table.push_pull(Deadline::after(kLong)).ok()) return;
}

/// Rank 2 does not create the table.
void table_missing(World& world) {
  pslib::ParameterServer server(world);
  joined(world);
  if (world.rank() == 2) return linger();
  (void)server.table("model", {{"w", {64}}}, pslib::Optimizer::sgd(0.1F), Deadline::after(kLong));
}

/// Rank 0 waits for either of two slots, whose writers don't put.
void none_of_several(World& world) {
  const auto spec = [](int rank) {
    return SlotSpec{
        .name = "from " + std::to_string(rank), .dtype = DType::f32, .shape = {4}, .depth = 2};
  };
  if (world.rank() != 0) {
    const RemoteSlot remote = world.attach(0, spec(world.rank()));
    joined(world);
    return linger();
  }
  Slot one = world.expose(spec(1));
  Slot two = world.expose(spec(2));
  joined(world);
  const std::array<Slot*, 2> slots{&one, &two};
  (void)world.wait_any(slots, Deadline::after(kLong));
}

/// Rank 0 waits for a slot, a plan and two messages, none of which will end.
void mixed_set(World& world) {
  Collectives group = Collectives::open(world);
  Messages messages(world);
  const Tensor tensor = world.allocate(DType::f32, {8});
  const SlotSpec spec{.name = "next", .dtype = DType::f32, .shape = {4}};
  if (world.rank() != 0) {
    RemoteSlot remote;
    if (world.rank() == 2) remote = world.attach(0, spec);
    joined(world);
    return linger();
  }
  Slot slot = world.expose(spec);
  Plan plan = group.start(all_reduce(tensor, Reduction::sum));
  MessageRequest one = messages.irecv(1, 4, tensor);
  MessageRequest other = messages.irecv(kAnySource, 5, tensor);
  joined(world);
  const std::array<Slot*, 1> slots{&slot};
  const std::array<Plan*, 1> plans{&plan};
  const std::array<MessageRequest*, 2> both{&one, &other};
  (void)world.wait_any({.slots = slots, .plans = plans, .messages = both}, Deadline::after(kLong));
}

/// Rank 1 offers nothing under the key that rank 0 wants.
void not_offered(World& world) {
  Rendezvous exchange = Rendezvous::open(world, {.name = "edges"});
  joined(world);
  if (world.rank() == 1) return linger();
  (void)exchange.recv(1, "gradient\n", 4, Deadline::after(kLong));
}

/// Rank 1 does not fetch what rank 0 has offered to it.
void not_fetched(World& world) {
  Rendezvous exchange = Rendezvous::open(world, {.name = "edges"});
  joined(world);
  if (world.rank() != 0) return linger();
  exchange.send(1, "gradient", 4, world.allocate(DType::f32, {4})).or_throw();
  (void)exchange.serve(Deadline::after(kLong));
}

/// No rank adds to the signal.
void signal_not_added(World& world) {
  if (world.rank() == 1) {
    RemoteSignal signal = RemoteSignal::attach(world, 0, "steps");
    joined(world);
    return linger();
  }
  Signal signal = Signal::expose(world, "steps");
  joined(world);
  (void)signal.wait_at_least(3, Deadline::after(kLong));
}

/// Rank 1 does not split the group.
void not_split(World& world) {
  joined(world);
  if (world.rank() == 1) return linger();
  (void)world.group().split(0, 0, Deadline::after(kLong));
}

/// Rank 0 waits for the next tensor while it holds the last.
void arrival_kept(World& world) {
  const SlotSpec spec{.name = "next", .dtype = DType::f32, .shape = {4}};
  if (world.rank() == 1) {
    RemoteSlot remote = world.attach(0, spec);
    const Tensor tensor = world.allocate(DType::f32, {4});
    remote.put(tensor).wait().or_throw();
    joined(world);
    (void)remote.put(tensor).wait(Deadline::after(kLong));
    return;
  }
  Slot slot = world.expose(spec);
  const Arrival kept = slot.wait().value();
  joined(world);
  (void)slot.wait(Deadline::after(kLong));
}

/// Rank 0 takes a message of any rank, rank 2 has left, and the others send none.
void any_source(World& world) {
  Messages messages(world);
  const Tensor tensor = world.allocate(DType::f32, {8});
  joined(world);
  if (world.rank() == 0) (void)messages.recv(kAnySource, 5, tensor, Deadline::after(kLong));
  if (world.rank() == 2) return;
  linger();
}

/// A few collectives and messages, for a trace.
void traced(World& world) {
  Collectives group = Collectives::open(world);
  Messages messages(world);
  const Tensor tensor = world.allocate(DType::f32, {8});
  const Tensor large = world.allocate(DType::f32, {1 << 16});
  for (int i = 0; i < 2; ++i) group.run(all_reduce(tensor, Reduction::sum)).or_throw();
  group.run(broadcast(tensor, 1)).or_throw();
  for (const Tensor& each : {tensor, large}) {
    if (world.rank() == 0) messages.send(1, 7, each).or_throw();
    if (world.rank() == 1) (void)messages.recv(0, 7, each).value();
  }
  joined(world);
  linger();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::map<std::string, void (*)(World&)> ways{
      {"put_refused", put_refused},
      {"call_skipped", call_skipped},
      {"not_opened", not_opened},
      {"message_offered", [](World& world) { message_unreceived(world, 1 << 18); }},
      {"message_sent", [](World& world) { message_unreceived(world, 4); }},
      {"wrong_root", wrong_root},
      {"worker_stopped", train},
      {"table_missing", table_missing},
      {"none_of_several", none_of_several},
      {"mixed_set", mixed_set},
      {"not_offered", not_offered},
      {"not_fetched", not_fetched},
      {"signal_not_added", signal_not_added},
      {"not_split", not_split},
      {"arrival_kept", arrival_kept},
      {"any_source", any_source},
      {"traced", traced}};
  const auto way = ways.find(argc > 1 ? argv[1] : "");
  if (way == ways.end()) return 2;
  World world = World::join();
  way->second(world);
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
