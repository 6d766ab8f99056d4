#include "tests/conformance/runner.hpp"

#include "tests/conformance/holdings.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {

Runner::Runner(World& world) : world_(world), check_(world), meeting_(world, "runner") {
  if (settings().ends.owner.is_gpu() || settings().ends.other.is_gpu()) use_gpus();
}

void Runner::use_gpus() {
  const SlotSpec spec{.name = "first use", .shape = {1000}};
  RingEdge edge(world_, spec);
  check_.ok(edge.remote.put(allocate_source(world_, spec.dtype, spec.shape)).wait(), "put");
  check_.ok(edge.slot.wait(), "wait").release();
  meeting_.wait();
}

void Runner::run(const Body& body) {
  meeting_.wait();
  const Report before = world_.report();
  meeting_.wait();
  body.run(world_);
  meeting_.wait();
  std::string left;
  const bool settled = meeting_.soon([&] {
    left = left_behind(before, world_.report());
    return left.empty();
  });
  check_(settled, "after the body: " + left);
}

}  // namespace weft::conformance
