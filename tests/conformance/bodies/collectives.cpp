// Collectives give the same over every fabric.
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "weft/collective.hpp"

namespace weft::conformance {
namespace {

/// Element i is first + i.
void count_up(World& world, const Tensor& tensor, std::int64_t first) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.shape().elements()));
  std::iota(values.begin(), values.end(), static_cast<std::int32_t>(first));
  set_values(world, tensor, std::move(values));
}

Tensor filled(World& world, std::int64_t count, std::int64_t first) {
  const Tensor tensor = allocate_source(world, DType::i32, {count});
  count_up(world, tensor, first);
  return tensor;
}

/// Room for a result, where owners have their tensors.
Tensor room(World& world, std::int64_t count) {
  const Tensor tensor = allocate_own(world, DType::i32, {count});
  count_up(world, tensor, 0);
  return tensor;
}

/// Requires that element i is first + i * step.
void runs(World& world, const Tensor& tensor, std::int64_t first, std::int64_t step,
          std::string_view what) {
  const Check check(world);
  for (const auto value : values_of<std::int32_t>(world, tensor)) {
    check.equal<std::int64_t>(value, first, what);
    first += step;
  }
}

void collectives_give_what_they_must(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Collectives group = Collectives::open(world);
  const std::int64_t me = group.rank();
  const std::int64_t size = group.size();
  const std::int64_t ranks_sum = size * (size - 1) / 2;
  const int root = static_cast<int>(size) / 2;
  for (const std::int64_t count : {0, 1, 7, 6001}) {
    const auto in = filled(world, count, 1000 * me);
    const auto out = room(world, count);
    check.ok(group.run(all_reduce(in, out, Reduction::sum)), "all_reduce");
    runs(world, out, 1000 * ranks_sum, size, "all_reduce");
    check.ok(group.run(reduce(in, me == root ? out : Tensor(), Reduction::max, root)), "reduce");
    if (me == root) runs(world, out, 1000 * (size - 1), 1, "reduce");
    check.ok(group.run(scan(in, out, Reduction::sum)), "scan");
    runs(world, out, 1000 * me * (me + 1) / 2, me + 1, "scan");
    check.ok(group.run(broadcast(in, root)), "broadcast");
    runs(world, in, 1000 * root, 1, "broadcast");
    check.ok(group.run(barrier()), "barrier");

    const auto whole = filled(world, count * size, 5 * me);
    check.ok(group.run(reduce_scatter(whole, out, Reduction::sum)), "reduce_scatter");
    runs(world, out, 5 * ranks_sum + size * me * count, size, "reduce_scatter");
    const auto part = filled(world, count, me * count);
    check.ok(group.run(all_gather(part, whole)), "all_gather");
    runs(world, whole, 0, 1, "all_gather");
    const auto at_root = room(world, count * size);
    check.ok(group.run(gather(part, me == root ? at_root : Tensor(), root)), "gather");
    if (me == root) runs(world, at_root, 0, 1, "gather");
    check.ok(group.run(scatter(me == root ? whole : Tensor(), out, root)), "scatter");
    runs(world, out, me * count, 1, "scatter");
    check.ok(group.run(all_to_all(whole, whole)), "all_to_all");
    for (std::int64_t r = 0; r < size; ++r)
      runs(world, whole.part(r * count, {count}), me * count, 1, "all_to_all");
  }
  meeting.wait();
}

constexpr std::array kByRounds{Algorithm::ring, Algorithm::halving, Algorithm::doubling,
                               Algorithm::two_level};

/// Runs the call if the algorithm serves it here; within a host every algorithm does, in the same
/// way.
bool serves(Collectives& group, const Call& call, const Check& check, std::string_view what) {
  const Status status = group.run(call);
  if (status.code() == Code::bad_argument) return false;
  check.ok(status, what);
  return true;
}

/// Elements whose sum depends on the order.
Tensor uneven(World& world, DType dtype, std::int64_t count) {
  const std::size_t bytes = dtype == DType::f32 ? sizeof(float) : 2;  // bf16: the upper half of f32
  std::vector<std::byte> values(static_cast<std::size_t>(count) * bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const float value = 1.0F / static_cast<float>(3 + world.rank() * 7 + static_cast<int>(i % 101));
    std::memcpy(values.data() + bytes * i,
                reinterpret_cast<const std::byte*>(&value) + sizeof value - bytes, bytes);
  }
  const Tensor tensor = allocate_source(world, dtype, {count});
  set_values(world, tensor, std::move(values));
  return tensor;
}

void algorithms_give_the_same(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Collectives group = Collectives::open(world);
  const std::int64_t size = group.size();
  for (const std::int64_t count : {1, 70, 200'000}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto in = uneven(world, dtype, count);
      const auto expected = allocate_own(world, dtype, {count});
      Call call = all_reduce(in, expected, Reduction::avg);
      call.algorithm = Algorithm::direct;
      check.ok(group.run(call), "directly");
      call.out = allocate_own(world, dtype, {count});
      for (const Algorithm algorithm : kByRounds) {
        call.algorithm = algorithm;
        if (serves(group, call, check, "by rounds"))
          check(values_of<std::byte>(world, call.out) == values_of<std::byte>(world, expected),
                "the same bits by every algorithm");
      }
    }
    for (const Algorithm algorithm : kByRounds) {
      const std::int64_t sum = size * (size - 1) / 2;
      const auto tensor = filled(world, count, 1000 * world.rank());
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = algorithm;
      if (serves(group, call, check, "all_reduce"))
        runs(world, tensor, 1000 * sum, size, "all_reduce");
      const auto from = filled(world, count, world.rank());
      call = broadcast(from, static_cast<int>(size) - 1);
      call.algorithm = algorithm;
      if (serves(group, call, check, "broadcast")) runs(world, from, size - 1, 1, "broadcast");
      const auto whole = filled(world, count * size, world.rank());
      const auto part = room(world, count);
      call = reduce_scatter(whole, part, Reduction::sum);
      call.algorithm = algorithm;
      if (serves(group, call, check, "reduce_scatter"))
        runs(world, part, sum + size * world.rank() * count, size, "reduce_scatter");
      call = all_gather(filled(world, count, world.rank() * count), whole);
      call.algorithm = algorithm;
      if (serves(group, call, check, "all_gather")) runs(world, whole, 0, 1, "all_gather");
      call = barrier();
      call.algorithm = algorithm;
      (void)serves(group, call, check, "barrier");
    }
  }
  meeting.wait();
}

void plans_of_groups_run_again(World& world) {
  const Check check(world);
  Meeting meeting(world);
  std::vector<int> half;
  for (int r = world.rank() % 2; r < world.size(); r += 2) half.push_back(r);
  Collectives all = Collectives::open(world);
  Collectives some = Collectives::open(world, half);
  for (const std::int64_t count : {3, 5000}) {
    const auto tensor = filled(world, count, 0);
    Plan sum = all.plan(all_reduce(tensor, Reduction::sum));
    Plan highest = some.plan(all_reduce(tensor, Reduction::max));
    for (std::int64_t turn = 0; turn < 6; ++turn) {
      set_values(world, tensor,
                 std::vector(static_cast<std::size_t>(count),
                             static_cast<std::int32_t>(world.rank() + turn)));
      check.ok(highest.run(), "plan of a half");
      runs(world, tensor, half.back() + turn, 0, "plan of a half");
      check.ok(sum.start(), "start");
      check.ok(sum.wait(), "plan of all");
      std::int64_t expected = 0;
      for (int r = 0; r < world.size(); ++r) {
        int last = r;
        while (last + 2 < world.size()) last += 2;
        expected += last + turn;
      }
      runs(world, tensor, expected, 0, "plan of all");
    }
  }
  meeting.wait();
}

void different_calls_end_the_group(World& world) {
  if (world.size() < 2) return;
  const Check check(world);
  Meeting meeting(world);
  {
    Collectives group = Collectives::open(world);
    const auto tensor = filled(world, world.rank() == 1 ? 9 : 10, 0);
    const Status status = group.run(all_reduce(tensor, Reduction::sum));
    const ErrorDetail why = check.ends(status, Code::mismatch, "different calls");
    check.says(why.message, "all_reduce(i32[10], sum)");
    check.says(why.message, "all_reduce(i32[9], sum) on rank 1");
    check.ends(group.run(barrier()), Code::mismatch, "the next call");
  }
  meeting.wait();
}

}  // namespace

Bodies collective_bodies() {
  return {{"collectives_give_what_they_must", collectives_give_what_they_must},
          {"algorithms_give_the_same", algorithms_give_the_same},
          {"plans_of_groups_run_again", plans_of_groups_run_again},
          {"different_calls_end_the_group", different_calls_end_the_group}};
}

}  // namespace weft::conformance
