// A ring and an all-to-all exchange, step after step, in a loop that needs every rank.
#include <numeric>
#include <string>
#include <vector>

#include "tests/faults/kill_random_rank/fault_worker.hpp"
#include "tests/pattern.hpp"

namespace weft::tests {
namespace {

SlotSpec ring_spec() {
  return {.name = "ring", .dtype = DType::f32, .shape = {100'000}, .depth = 2};
}
SlotSpec spec_from(int writer) {
  return {.name = "from " + std::to_string(writer), .dtype = DType::f32, .shape = {500}};
}

/// A slot in each direction, and the tensor that travels.
struct Edge {
  Slot in;
  RemoteSlot out;
  Tensor tensor;
};

Status put(Edge& edge) { return edge.out.put(edge.tensor).wait(); }
Status take(Edge& edge) { return edge.in.wait().status(); }

}  // namespace

Status exchange_slots(World& world, Deadline end) {
  std::vector<int> everybody(static_cast<std::size_t>(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);

  std::vector<Edge> edges(everybody.size() + 1);
  for (const int peer : everybody)
    edges[static_cast<std::size_t>(peer)].in = world.expose(spec_from(peer));
  edges.back().in = world.expose(ring_spec());
  for (const int peer : everybody)
    edges[static_cast<std::size_t>(peer)].out = world.attach(peer, spec_from(world.rank()));
  edges.back().out = world.attach((world.rank() + 1) % world.size(), ring_spec());
  for (auto& edge : edges) {
    edge.in.also_needs(everybody);
    edge.out.also_needs(everybody);
    edge.tensor = world.allocate(edge.in.spec().dtype, edge.in.spec().shape);
    fill(edge.tensor, pattern_of(world.rank(), 0, 0));
  }
  while (!end.passed()) {
    for (auto& edge : edges)
      if (const auto status = put(edge); !status.ok()) return status;
    for (auto& edge : edges)
      if (const auto status = take(edge); !status.ok()) return status;
  }
  return {};
}

}  // namespace weft::tests
