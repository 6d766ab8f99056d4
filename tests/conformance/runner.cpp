#include "tests/conformance/runner.hpp"

#include "tests/conformance/holdings.hpp"

namespace weft::conformance {

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
