#include "tests/guide/phrases.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>
#include <weft/pslib.hpp>
#include <weft/weft.hpp>

namespace {

using weft::Reduction;

void expect(bool holds, const char* phrase) {
  if (holds) return;
  throw weft::Error(weft::ErrorDetail{.code = weft::Code::mismatch,
                                      .operation = "phrase",
                                      .message = std::string(phrase) + " did something else"});
}

weft::Tensor numbers(weft::World& world, std::int64_t count, std::int64_t value) {
  weft::Tensor tensor = world.allocate(weft::DType::i64, {count});
  std::ranges::fill(tensor.as<std::int64_t>(), value);
  return tensor;
}

bool all_are(const weft::Tensor& tensor, std::int64_t value) {
  return std::ranges::all_of(tensor.as<std::int64_t>(), [=](auto x) { return x == value; });
}

// Of MPI, NCCL and torch alike.
void collectives(weft::World& world, weft::Collectives& group) {
  const int rank = world.rank();
  const int root = 2;
  const weft::Tensor x = numbers(world, 4, rank + 1);
  const weft::Tensor y = numbers(world, 4, 0);
  const weft::Tensor all = numbers(world, 16, rank + 1);
  const weft::Tensor part = numbers(world, 4, 0);

  group.run(weft::barrier()).or_throw();
  group.run(weft::reduce(x, y, Reduction::max, root)).or_throw();
  expect(rank != root || all_are(y, 4), "reduce");
  group.run(weft::all_reduce(x, y, Reduction::sum)).or_throw();
  expect(all_are(y, 10), "all_reduce");
  group.run(weft::reduce_scatter(all, part, Reduction::sum)).or_throw();
  expect(all_are(part, 10), "reduce_scatter");
  group.run(weft::scan(x, y, Reduction::sum)).or_throw();
  expect(all_are(y, (rank + 1) * (rank + 2) / 2), "scan");
  group.run(weft::all_gather(x, all)).or_throw();
  expect(all_are(all.part(12, {4}), 4), "all_gather");
  group.run(weft::gather(x, all, root)).or_throw();
  expect(rank != root || all_are(all.part(4, {4}), 2), "gather");
  group.run(weft::scatter(all, part, root)).or_throw();
  expect(all_are(part, rank + 1), "scatter");
  const weft::Tensor sent = numbers(world, 16, rank + 1);
  group.run(weft::all_to_all(sent, all)).or_throw();
  expect(all_are(all.part(8, {4}), 3), "all_to_all");
  const std::vector<std::int64_t> counts{1, 2, 3, 4};
  const weft::Tensor mine = numbers(world, rank + 1, rank + 1);
  const weft::Tensor joined = numbers(world, 10, 0);
  group.run(weft::all_gather(mine, joined, counts)).or_throw();
  expect(all_are(joined.part(6, {4}), 4), "all_gather of counts");
  group.run(weft::broadcast(x, root)).or_throw();
  expect(all_are(x, 3), "broadcast");

  const weft::ReduceFunction function = [](std::byte* into, const std::byte* from,
                                           std::int64_t count, weft::DType) {
    auto* const a = reinterpret_cast<std::int64_t*>(into);
    const auto* const b = reinterpret_cast<const std::int64_t*>(from);
    for (std::int64_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
  };
  std::ranges::fill(x.as<std::int64_t>(), rank);
  group.run(weft::all_reduce(x, weft::ReduceOp(function))).or_throw();
  expect(all_are(x, 3), "a function");

  std::ranges::fill(x.as<std::int64_t>(), 1);
  weft::Plan begun = group.start(weft::all_reduce(x, Reduction::sum));
  begun.wait().or_throw();
  expect(all_are(x, 4), "start");
  weft::Plan plan = group.plan(weft::all_reduce(x, Reduction::sum));
  plan.start().or_throw();
  plan.wait().or_throw();
  expect(all_are(x, 16), "plan");
}

void groups_of_ranks(weft::World& world) {
  const std::vector<int> members{3, 1};
  const std::vector<int> places{0, 2};
  if (world.rank() % 2 == 1) {
    weft::Collectives odd = weft::Collectives::open(world, members);
    expect(odd.rank() == (world.rank() == 3 ? 0 : 1), "open of members");
  } else {
    weft::Group even = world.group().subset(places);
    weft::Collectives group = weft::Collectives::open(world, even);
    expect(group.size() == 2 && group.rank() == world.rank() / 2, "subset");
  }
  const int colour = world.rank() / 2;
  const int key = -world.rank();  // the higher rank first
  weft::Group pair = world.group().split(colour, key).value();
  expect(pair.size() == 2 && pair.rank() == (world.rank() % 2 == 1 ? 0 : 1), "split");
  weft::Group left = world.group().shrink().value();
  expect(left.size() == 4, "shrink");
  const std::vector<int> ranks{0, 1, 2, 3};
  world.alive(ranks).or_throw();
}

void two_sided(weft::World& world) {
  const int to = world.rank() ^ 1;
  const int from = to;
  const std::uint64_t tag = 0x509;
  weft::Messages messages(world);
  const weft::Tensor x = numbers(world, 3, world.rank());
  const weft::Tensor y = numbers(world, 3, -1);

  if (world.rank() % 2 == 0) {
    messages.send(to, tag, x).or_throw();
    expect(messages.recv(from, tag, y).value().source == from, "recv");
  } else {
    expect(messages.probe(from, tag).value().bytes == x.bytes(), "probe");
    expect(messages.recv(weft::kAnySource, weft::kAnyTag, y).value().tag == tag, "recv of any");
    messages.send(to, tag, x).or_throw();
  }
  expect(all_are(y, from), "send");
  expect(messages.sendrecv(to, tag, x, from, tag, y).ok(), "sendrecv");
  weft::MessageRequest requests[] = {messages.irecv(from, {0x500, 0xf00}, y),
                                     messages.isend(to, tag, x)};
  messages.wait_all(requests).or_throw();
  expect(requests[0].wait().value().tag == tag, "irecv by a mask");
}

void one_sided(weft::World& world, weft::Collectives& group) {
  const int owner = (world.rank() + 1) % world.size();
  const int before = (world.rank() + 3) % world.size();
  const weft::SlotSpec spec{.name = "window", .dtype = weft::DType::i64, .shape = {4}, .depth = 2};
  const weft::Tensor x = numbers(world, 4, world.rank());
  const weft::Tensor y = numbers(world, 4, 0);

  weft::Slot slot = world.expose(spec);
  weft::RemoteSlot remote = world.attach(owner, spec);
  remote.put(x).wait().or_throw();
  expect(all_are(slot.wait().value().tensor(), before), "put");
  remote.put(x, weft::Until::delivered).wait().or_throw();
  expect(all_are(slot.wait().value().tensor(), before), "put until delivered");
  weft::RemoteSlot* const end = &remote;
  weft::Request request = end->put(x);
  while (!request.test()) {
  }
  (void)request.cancel();  // it has ended: its status
  weft::Slot* const slots[] = {&slot};
  expect(world.wait_any(slots).value() == 0, "wait_any");
  expect(slot.wait().ok(), "the wait after wait_any");
  weft::Plan begun = group.start(weft::all_reduce(y, Reduction::sum));
  weft::Plan* const plans[] = {&begun};
  expect(world.wait_any({.plans = plans}).value() == 0, "wait_any of plans");
  begun.wait().or_throw();

  weft::PublishedSlot published = world.expose_published(
      {.name = "newest", .dtype = weft::DType::i64, .shape = {4}, .depth = 2});
  std::ranges::copy(x.as<std::int64_t>(), published.next().value().as<std::int64_t>().begin());
  published.publish().or_throw();
  weft::PublishedReader reader = world.attach_published(owner, "newest");
  reader.get(y).or_throw();
  expect(all_are(y, owner), "get");

  weft::Signal own = weft::Signal::expose(world, "counter");
  group.run(weft::barrier()).or_throw();
  weft::RemoteSignal counter = weft::RemoteSignal::attach(world, 0, "counter");
  expect(counter.fetch_add(1).value() < 4, "fetch_add");
  if (world.rank() == 0) own.wait_at_least(4).value();
  group.run(weft::barrier()).or_throw();
  expect(counter.compare_swap(99, 0).value() == 4, "compare_swap");

  const weft::Tensor matrix = world.allocate(weft::DType::i64, {4, 6});
  expect(matrix.slice(1, 2, 3).shape() == weft::Shape({4, 3}), "slice");
  expect(matrix.reshape({2, 12}).shape() == weft::Shape({2, 12}), "reshape");
  const std::shared_ptr<void> memory = std::make_unique<std::array<std::int64_t, 4>>();
  const weft::Tensor adopted = world.adopt(memory, weft::DType::i64, {4});
  expect(adopted.data() == memory.get(), "adopt");
  const int descriptor = world.event_fd();
  pollfd events{.fd = descriptor, .events = POLLIN, .revents = 0};
  expect(::poll(&events, 1, 0) >= 0, "event_fd");
  world.clear_event();
  group.run(weft::barrier()).or_throw();
}

// Keys and values, as ps-lite has them.
void key_value(weft::World& world) {
  using weft::pslib::Optimizer;
  weft::pslib::ParameterServer server(world, {.dedicated_servers = 1}, "phrases");
  weft::pslib::SparseTable rows =
      server.sparse_table("rows", {.dim = 2, .optimizer = Optimizer::sgd(1.0F), .spread = 0.0F});
  weft::pslib::Table table = server.table("dense", {{"w", {16}}}, Optimizer::sgd(1.0F));
  if (server.serves()) {
    weft::pslib::Table* const tables[] = {&table};
    weft::pslib::SparseTable* const sparse[] = {&rows};
    server.serve(tables, sparse).or_throw();
    return;
  }
  const std::vector<std::uint64_t> ids{5, 1ULL << 60U};
  std::vector<float> values(4);
  const std::vector<float> gradients(4, 1.0F);
  rows.push(ids, gradients).or_throw();
  rows.flush().or_throw();
  rows.lookup(ids, values).or_throw();
  expect(std::ranges::all_of(values, [](float x) { return x == -1.0F; }), "push, then lookup");
  rows.push_lookup(ids, gradients, ids, values).or_throw();
  expect(values[3] == -2.0F, "push_lookup");
  std::ranges::fill(table.parameter("w").as<float>(), 0.0F);
  table.initialize().or_throw();
  std::ranges::fill(table.gradient("w").as<float>(), 1.0F);
  table.push().or_throw();
  table.pull().or_throw();
  std::ranges::fill(table.gradient("w").as<float>(), 1.0F);
  table.push_pull().or_throw();
  expect(table.parameter("w").as<float>()[15] == -2.0F, "push, pull and push_pull");
}

}  // namespace

void phrases(weft::World& world) {
  weft::Collectives group = weft::Collectives::open(world);
  collectives(world, group);
  groups_of_ranks(world);
  two_sided(world);
  one_sided(world, group);
  key_value(world);
  std::printf("rank %d of %d has run every phrase\n", world.rank(), world.size());
}
