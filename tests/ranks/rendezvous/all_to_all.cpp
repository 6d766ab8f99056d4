// Every rank sends to every rank, itself included, under several keys; shapes change at times. With
// a known shape, a tensor costs one request and one write.
#include <string>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"
#include "weft/rendezvous.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;
using weft::tests::fill;
using weft::tests::holds;
using weft::tests::pattern_of;

constexpr std::uint64_t kSteps = 60;
constexpr std::uint64_t kChange = 20;  // steps that a shape stays
constexpr int kKeys = 3;

Shape shape_of(int key, std::uint64_t step) {
  return {static_cast<std::int64_t>(1 + step / kChange), 700 * (key + 1)};
}

TransferCounters cost_of(const World& world, int peer, Role role) {
  for (const auto& edge : world.report().edges)
    if (edge.slot == "rendezvous.default" && edge.peer == peer && edge.role == role)
      return edge.counters;
  return {};
}

void exchange(World& world, Checks& checks) {
  auto rendezvous = Rendezvous::open(world);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (int to = 0; to < world.size(); ++to)
      for (int key = 0; key < kKeys; ++key) {
        const Tensor tensor = world.allocate(DType::f32, shape_of(key, step));
        fill(tensor, pattern_of(world.rank(), key, step));
        rendezvous.send(to, "key" + std::to_string(key), step, tensor).or_throw();
      }
    for (int from = 0; from < world.size(); ++from) {
      const std::vector<std::string> names = {"key0", "key1", "key2"};
      std::vector<KeyStep> wanted;
      for (const auto& name : names) wanted.push_back({name, step});
      auto got = rendezvous.recv(from, wanted);
      for (int key = 0; key < kKeys; ++key) {
        const auto one = std::move(got[static_cast<std::size_t>(key)]).value();
        checks.expect(one.tensor.shape() == shape_of(key, step), "the shape is wrong");
        checks.expect(holds(one.tensor, pattern_of(from, key, step)),
                      "step " + std::to_string(step) + ": rank " + std::to_string(from) +
                          "'s tensor is wrong");
      }
    }
    rendezvous.serve().or_throw();
  }
  for (int peer = 0; peer < world.size(); ++peer) {
    const auto sent = cost_of(world, peer, Role::puts);
    checks.expect(sent.transfers == kSteps * kKeys, "not every tensor was counted as sent");
    checks.expect(sent.work_requests == kSteps * kKeys, "a tensor is not one work request");
    // The first step and two changes of the shape, for which a tensor is cloned.
    const std::uint64_t cloned = 4 * (1 + 2 + 3) * 700 * (1 + 2 + 3);
    checks.expect(sent.bytes_copied == cloned, "copied " + std::to_string(sent.bytes_copied) +
                                                   " bytes instead of " + std::to_string(cloned));
  }
}

}  // namespace

int main() { return weft::tests::run_as_rank(exchange); }
