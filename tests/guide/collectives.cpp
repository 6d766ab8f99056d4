#include <algorithm>
#include <cstdio>
#include <vector>
#include <weft/weft.hpp>

#include "tests/guide/samples.hpp"

// [all_reduce]
void sum_over_ranks(weft::World& world) {
  weft::Collectives group = weft::Collectives::open(world);  // every rank calls it
  const weft::Tensor tensor = world.allocate(weft::DType::f32, {4});
  std::ranges::fill(tensor.as<float>(), static_cast<float>(world.rank() + 1));
  group.run(weft::all_reduce(tensor, weft::Reduction::sum)).or_throw();
  std::printf("rank %d has the sum %g\n", world.rank(), tensor.as<float>()[0]);
}
// [end]

// [plan]
void mean_by_a_plan(weft::World& world) {
  weft::Collectives group = weft::Collectives::open(world);
  const weft::Tensor gradient = world.allocate(weft::DType::f32, {1000});
  weft::Plan mean = group.plan(weft::all_reduce(gradient, weft::Reduction::avg));
  for (int step = 1; step <= 3; ++step) {
    std::ranges::fill(gradient.as<float>(), static_cast<float>(step * world.rank()));
    mean.start().or_throw();
    // Compute here what needs neither the mean nor the tensor.
    mean.wait().or_throw();
    if (world.rank() == 0) std::printf("step %d: mean %g\n", step, gradient.as<float>()[999]);
  }
}
// [end]

// [groups]
void groups(weft::World& world) {
  // Even ranks and odd ones: each opens a group of its own kind, with the same list.
  std::vector<int> members;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) members.push_back(rank);
  weft::Collectives kind = weft::Collectives::open(world, members);
  const weft::Tensor tensor = world.allocate(weft::DType::i64, {1});
  tensor.as<std::int64_t>()[0] = world.rank();
  // The root is a place in the group: 0 is rank 0 in one group, rank 1 in the other.
  const int root = 0;
  kind.run(weft::reduce(tensor, tensor, weft::Reduction::sum, root)).or_throw();
  if (kind.rank() == root)
    std::printf("the ranks from %d on sum up to %ld\n", members.front(),
                tensor.as<std::int64_t>()[0]);
}
// [end]
