// Collectives give the same over every fabric.
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"
#include "weft/collective.hpp"

namespace weft::conformance {
namespace {

Tensor filled(World& world, std::int64_t count, std::int64_t first) {
  const Tensor tensor = world.allocate(DType::i32, {count});
  for (std::int64_t i = 0; i < count; ++i)
    tensor.as<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first + i);
  return tensor;
}

/// Requires that element i is first + i * step.
void runs(const Check& check, const Tensor& tensor, std::int64_t first, std::int64_t step,
          std::string_view what) {
  for (const std::int32_t value : tensor.as<std::int32_t>()) {
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
    const auto out = filled(world, count, 0);
    check.ok(group.run(all_reduce(in, out, Reduction::sum)), "all_reduce");
    runs(check, out, 1000 * ranks_sum, size, "all_reduce");
    check.ok(group.run(reduce(in, me == root ? out : Tensor(), Reduction::max, root)), "reduce");
    if (me == root) runs(check, out, 1000 * (size - 1), 1, "reduce");
    check.ok(group.run(scan(in, out, Reduction::sum)), "scan");
    runs(check, out, 1000 * me * (me + 1) / 2, me + 1, "scan");
    check.ok(group.run(broadcast(in, root)), "broadcast");
    runs(check, in, 1000 * root, 1, "broadcast");
    check.ok(group.run(barrier()), "barrier");

    const auto whole = filled(world, count * size, 5 * me);
    check.ok(group.run(reduce_scatter(whole, out, Reduction::sum)), "reduce_scatter");
    runs(check, out, 5 * ranks_sum + size * me * count, size, "reduce_scatter");
    const auto part = filled(world, count, me * count);
    check.ok(group.run(all_gather(part, whole)), "all_gather");
    runs(check, whole, 0, 1, "all_gather");
    const auto at_root = filled(world, count * size, -1);
    check.ok(group.run(gather(part, me == root ? at_root : Tensor(), root)), "gather");
    if (me == root) runs(check, at_root, 0, 1, "gather");
    check.ok(group.run(scatter(me == root ? whole : Tensor(), out, root)), "scatter");
    runs(check, out, me * count, 1, "scatter");
    check.ok(group.run(all_to_all(whole, whole)), "all_to_all");
    for (std::int64_t r = 0; r < size; ++r)
      runs(check, whole.part(r * count, {count}), me * count, 1, "all_to_all");
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
  const Tensor tensor = world.allocate(dtype, {count});
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const float value = 1.0F / static_cast<float>(3 + world.rank() * 7 + static_cast<int>(i % 101));
    if (dtype == DType::f32)
      tensor.as<float>()[i] = value;
    else  // bf16: the upper half of an f32
      std::memcpy(tensor.data() + 2 * i, reinterpret_cast<const std::byte*>(&value) + 2, 2);
  }
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
      const auto expected = world.allocate(dtype, {count});
      Call call = all_reduce(in, expected, Reduction::avg);
      call.algorithm = Algorithm::direct;
      check.ok(group.run(call), "directly");
      call.out = world.allocate(dtype, {count});
      for (const Algorithm algorithm : kByRounds) {
        call.algorithm = algorithm;
        if (serves(group, call, check, "by rounds"))
          check(std::memcmp(call.out.data(), expected.data(), call.out.bytes()) == 0,
                "the same bits by every algorithm");
      }
    }
    for (const Algorithm algorithm : kByRounds) {
      const std::int64_t sum = size * (size - 1) / 2;
      const auto tensor = filled(world, count, 1000 * world.rank());
      Call call = all_reduce(tensor, Reduction::sum);
      call.algorithm = algorithm;
      if (serves(group, call, check, "all_reduce"))
        runs(check, tensor, 1000 * sum, size, "all_reduce");
      const auto from = filled(world, count, world.rank());
      call = broadcast(from, static_cast<int>(size) - 1);
      call.algorithm = algorithm;
      if (serves(group, call, check, "broadcast")) runs(check, from, size - 1, 1, "broadcast");
      const auto whole = filled(world, count * size, world.rank());
      const auto part = filled(world, count, 0);
      call = reduce_scatter(whole, part, Reduction::sum);
      call.algorithm = algorithm;
      if (serves(group, call, check, "reduce_scatter"))
        runs(check, part, sum + size * world.rank() * count, size, "reduce_scatter");
      call = all_gather(filled(world, count, world.rank() * count), whole);
      call.algorithm = algorithm;
      if (serves(group, call, check, "all_gather")) runs(check, whole, 0, 1, "all_gather");
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
      for (auto& value : tensor.as<std::int32_t>())
        value = static_cast<std::int32_t>(world.rank() + turn);
      check.ok(highest.run(), "plan of a half");
      runs(check, tensor, half.back() + turn, 0, "plan of a half");
      check.ok(sum.start(), "start");
      check.ok(sum.wait(), "plan of all");
      std::int64_t expected = 0;
      for (int r = 0; r < world.size(); ++r) {
        int last = r;
        while (last + 2 < world.size()) last += 2;
        expected += last + turn;
      }
      runs(check, tensor, expected, 0, "plan of all");
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
