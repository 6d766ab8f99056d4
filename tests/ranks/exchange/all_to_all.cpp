// Every rank puts into a slot of every rank, itself included, and checks what all of them put; the
// steady state costs one work request per transfer and nothing else.
#include <string>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/ranks/checks.hpp"

namespace {

using namespace weft;
using weft::tests::Checks;
using weft::tests::fill;
using weft::tests::holds;
using weft::tests::pattern_of;

constexpr std::uint64_t kRounds = 50;

SlotSpec spec_from(int writer) {
  return {
      .name = "from " + std::to_string(writer), .dtype = DType::f32, .shape = {1500}, .depth = 2};
}

TransferCounters all_counters(const World& world) {
  TransferCounters sum;
  const auto report = world.report();
  for (const auto& edge : report.edges) sum += edge.counters;
  for (const auto& path : report.paths) sum += path.counters;
  return sum;
}

void exchange(World& world, Checks& checks) {
  std::vector<Slot> slots;
  std::vector<RemoteSlot> remotes;
  std::vector<Tensor> tensors;
  for (int peer = 0; peer < world.size(); ++peer) slots.push_back(world.expose(spec_from(peer)));
  for (int peer = 0; peer < world.size(); ++peer) {
    remotes.push_back(world.attach(peer, spec_from(world.rank())));
    tensors.push_back(world.allocate(DType::f32, {1500}));
  }
  TransferCounters before;
  for (std::uint64_t n = 0; n <= kRounds; ++n) {
    std::vector<Request> requests;
    for (std::size_t peer = 0; peer < remotes.size(); ++peer) {
      fill(tensors[peer], pattern_of(world.rank(), static_cast<int>(peer), n));
      requests.push_back(remotes[peer].put(tensors[peer]));
    }
    for (auto& request : requests) request.wait().or_throw();
    for (std::size_t peer = 0; peer < slots.size(); ++peer) {
      const auto arrival = slots[peer].wait().value();
      checks.expect(
          holds(arrival.tensor(), pattern_of(static_cast<int>(peer), world.rank(), n)),
          "round " + std::to_string(n) + ": rank " + std::to_string(peer) + "'s tensor is wrong");
    }
    if (n == 0) before = all_counters(world);
  }
  // The first round is every peer's warm-up too, so a late attach of a peer may still be counted
  // here; the payload counters are this rank's alone.
  const auto cost = all_counters(world) - before;
  const auto transfers = kRounds * remotes.size();
  checks.expect(cost.work_requests == transfers, "a transfer is one work request, not " +
                                                     std::to_string(cost.work_requests) + " for " +
                                                     std::to_string(transfers));
  checks.expect(cost.bytes_copied == 0, "bytes were copied");
}

}  // namespace

int main() { return weft::tests::run_as_rank(exchange); }
