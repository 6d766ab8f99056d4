// Every rank puts into slots of every rank, itself included.
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

SlotSpec spec_of(int writer, int number, std::uint32_t depth) {
  return {.name = "from " + std::to_string(writer) + ", " + std::to_string(number),
          .dtype = DType::f32,
          .shape = {number % 3 == 0 ? 10 : 1500},
          .depth = depth};
}

/// The slots between this rank and all others, `each` of them per pair and direction.
struct Mesh {
  Mesh(World& world, int each, std::uint32_t depth) {
    for (int peer = 0; peer < world.size(); ++peer)
      for (int i = 0; i < each; ++i) slots.push_back(world.expose(owned(spec_of(peer, i, depth))));
    for (int peer = 0; peer < world.size(); ++peer)
      for (int i = 0; i < each; ++i)
        remotes.push_back(world.attach(peer, spec_of(world.rank(), i, depth)));
  }
  std::vector<Slot> slots;
  std::vector<RemoteSlot> remotes;
};

std::uint64_t pattern(int writer, int owner, int number, std::uint64_t n) {
  return pattern_of(writer, owner * 100 + number, n);
}

void exchanges_all_to_all(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Mesh mesh(world, 1, 2);
  std::vector<Tensor> sources;
  for (const RemoteSlot& remote : mesh.remotes)
    sources.push_back(allocate_source(world, remote.spec().dtype, remote.spec().shape));
  for (std::uint64_t n = 1; n <= 15; ++n) {
    std::vector<Request> requests;
    for (std::size_t peer = 0; peer < sources.size(); ++peer) {
      fill(world, sources[peer], pattern(world.rank(), static_cast<int>(peer), 0, n));
      requests.push_back(mesh.remotes[peer].put(sources[peer]));
    }
    for (std::size_t peer = 0; peer < sources.size(); ++peer)
      check.holds(check.ok(mesh.slots[peer].wait(), "wait").tensor(),
                  pattern(static_cast<int>(peer), world.rank(), 0, n),
                  "from rank " + std::to_string(peer));
    for (Request& request : requests) check.ok(request.wait(), "put");
  }
  meeting.wait();
}

void serves_many_slots(World& world) {
  const Check check(world);
  Meeting meeting(world);
  const int each = (kSanitized ? 40 : 160) / world.size();
  Mesh mesh(world, each, 1);
  std::vector<Tensor> sources;
  std::vector<Request> requests;
  for (RemoteSlot& remote : mesh.remotes) {
    const int number = static_cast<int>(sources.size()) % each;
    sources.push_back(allocate_source(world, remote.spec().dtype, remote.spec().shape));
    fill(world, sources.back(), pattern(world.rank(), remote.owner(), number, 1));
    requests.push_back(remote.put(sources.back()));
  }
  std::vector<Slot*> waiting;
  for (Slot& slot : mesh.slots) waiting.push_back(&slot);
  while (!waiting.empty()) {
    const auto found = check.ok(world.wait_any(waiting), "wait_any");
    const int at = static_cast<int>(waiting[found] - mesh.slots.data());
    // The copy of what has come goes on where a GPU has to make one.
    const Deadline at_once = settings().ends.owner.is_gpu() ? Deadline() : Deadline::after({});
    const auto arrival = check.ok(waiting[found]->wait(at_once), "an arrival found");
    check.holds(arrival.tensor(), pattern(at / each, world.rank(), at % each, 1), "tensor");
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(found));
  }
  for (Request& request : requests) check.ok(request.wait(), "put");
  meeting.wait();
}

}  // namespace

Bodies many_slots_bodies() {
  return {{"exchanges_all_to_all", exchanges_all_to_all}, {"serves_many_slots", serves_many_slots}};
}

}  // namespace weft::conformance
