// Groups that are split by colours and keys.
#include <algorithm>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"

namespace weft::conformance {
namespace {

std::vector<int> ranks_of(const Group& group) {
  return {group.members().begin(), group.members().end()};
}

/// Odd and even ranks, each in the opposite order.
void splits_by_colour_and_key(World& world) {
  const Check check(world);
  const Group part = check.ok(world.group().split(world.rank() % 2, -world.rank()), "split");
  std::vector<int> expected;
  for (int rank = world.size(); rank-- > 0;)
    if (rank % 2 == world.rank() % 2) expected.push_back(rank);
  check(ranks_of(part) == expected, "the members of a colour are in the order of their keys");
  check.equal(part.members()[static_cast<std::size_t>(part.rank())], world.rank(), "own place");
  check.equal(part.epoch(), 0U, "epoch");

  // The parts work: each sums its ranks.
  Collectives among = Collectives::open(world, part);
  const Tensor sum = allocate_source(world, DType::i32, {1});
  set_values(world, sum, std::vector<std::int32_t>{world.rank()});
  check.ok(among.run(all_reduce(sum, Reduction::sum)), "all_reduce");
  std::int32_t all = 0;
  for (const int rank : expected) all += rank;
  check.equal(values_of<std::int32_t>(world, sum)[0], all, "the sum of a part");

  // A part is split again: its first member alone, the rest by equal keys.
  const Group again = check.ok(part.split(part.rank() == 0 ? 5 : 2, 3), "split");
  if (part.rank() == 0)
    check(ranks_of(again) == std::vector{world.rank()}, "a member of a colour of its own");
  else
    check(ranks_of(again) == std::vector(expected.begin() + 1, expected.end()),
          "equal keys keep the order");
}

void leaves_out_ranks_without_a_colour(World& world) {
  const Check check(world);
  const int left_out = world.size() - 1;
  for (int n = 0; n < 3; ++n) {
    const bool is_out = world.rank() == left_out && world.size() > 1;
    const Group part =
        check.ok(world.group().split(is_out ? Group::kNoColour : 1 << 30, n), "split");
    check.equal(part.size(), is_out ? 0 : std::max(1, world.size() - 1), "members");
    check.equal(part.contains(left_out), world.size() == 1, "the rank without a colour");
  }
  check.ends(world.group().split(-2).status(), Code::bad_argument, "a colour below -1");
  check.ends(Group().split(0).status(), Code::bad_argument, "the empty group");
  const std::vector<int> first{0};
  const Group alone = world.group().subset(first);
  if (world.rank() != 0)
    check.ends(alone.split(0).status(), Code::bad_argument, "a group of others");
  Meeting(world).wait();
}

}  // namespace

Bodies split_bodies() {
  return {{"splits_by_colour_and_key", splits_by_colour_and_key},
          {"leaves_out_ranks_without_a_colour", leaves_out_ranks_without_a_colour}};
}

}  // namespace weft::conformance
