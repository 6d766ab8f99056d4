// Every collective, type and number of ranks against a reference, in place and not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "tests/support/ranks.hpp"
#include "tests/threads/collectives/values.hpp"

namespace weft::tests {
namespace {

constexpr std::array kReductions{Reduction::sum,    Reduction::prod,   Reduction::min,
                                 Reduction::max,    Reduction::avg,    Reduction::bit_and,
                                 Reduction::bit_or, Reduction::bit_xor};

bool combines(DType dtype, Reduction reduction) {
  return reduction < Reduction::bit_and || dtype > DType::bf16;
}

/// Runs one call on one rank, in all its variants.
class Turn {
 public:
  Turn(World& world, Collectives& group, DType dtype, std::int64_t count, bool in_place,
       bool wrapped)
      : world_(world),
        group_(group),
        dtype_(dtype),
        count_(count),
        in_place_(in_place),
        wrapped_(wrapped),
        me_(group.rank()),
        size_(group.size()) {}

  void combine(Reduction reduction) {
    const Values all = rounded(world_, dtype_, combined(reduction, dtype_, size_, count_));
    const Tensor in = make(pattern(me_, count_));
    const Tensor out = in_place_ ? in : make(Values(static_cast<std::size_t>(count_)));
    expect(all_reduce(in, out, reduction), out, all);
    write(in, pattern(me_, count_));
    const int root = size_ - 1;
    run(reduce(in, me_ == root ? out : Tensor(), reduction, root));
    if (me_ == root) hold(out, all, "reduce");
    write(in, pattern(me_, count_));
    expect(scan(in, out, reduction), out,
           rounded(world_, dtype_, combined(reduction, dtype_, me_ + 1, count_)));
    scatter_combined(reduction);
  }

  void scatter_combined(Reduction reduction) {
    const Values all = rounded(world_, dtype_, combined(reduction, dtype_, size_, count_ * size_));
    const Tensor in = make(pattern(me_, count_ * size_));
    const Tensor out = in_place_ ? in.part(me_ * count_, {count_})
                                 : make(Values(static_cast<std::size_t>(count_)));
    expect(reduce_scatter(in, out, reduction), out, part(all, me_ * count_, count_));
  }

  void move() {
    const int root = size_ / 2;
    const Tensor tensor = make(pattern(me_ == root ? root : me_ + 9, count_));
    expect(broadcast(tensor, root), tensor, pattern(root, count_));
    const Tensor all = make(Values(static_cast<std::size_t>(count_ * size_)));
    const Tensor own = in_place_ ? all.part(me_ * count_, {count_}) : make(pattern(me_, count_));
    write(own, pattern(me_, count_));
    expect(all_gather(own, all), all, everybody());
    run(gather(own, me_ == root ? all : Tensor(), root));
    if (me_ == root) hold(all, everybody(), "gather");
    if (me_ == root) write(all, everybody());
    const bool in_root = in_place_ && me_ == root;
    const Tensor back = in_root ? own : make(Values(static_cast<std::size_t>(count_)));
    expect(scatter(me_ == root ? all : Tensor(), back, root), back, pattern(me_, count_));
    write(all, addressed());
    const Tensor got = in_place_ ? all : make(Values(static_cast<std::size_t>(count_ * size_)));
    expect(all_to_all(all, got), got, received());
  }

  /// The part of rank r has r + count elements, except that rank 1's is empty.
  void move_unequal() {
    std::vector<std::int64_t> counts;
    for (int r = 0; r < size_; ++r) counts.push_back(r == 1 ? 0 : count_ + r);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    Values whole;
    for (int r = 0; r < size_; ++r)
      for (const double value : pattern(r, counts[static_cast<std::size_t>(r)]))
        whole.push_back(value);
    const std::int64_t mine = counts[static_cast<std::size_t>(me_)];
    const Tensor own = make(pattern(me_, mine));
    const Tensor all = make(Values(static_cast<std::size_t>(total)));
    expect(all_gather(own, all, counts), all, whole);
    run(gather(own, me_ == 0 ? all : Tensor(), 0, counts));
    if (me_ == 0) hold(all, whole, "gather");
    const Tensor back = make(Values(static_cast<std::size_t>(mine)));
    expect(scatter(me_ == 0 ? all : Tensor(), back, 0, counts), back, pattern(me_, mine));
    // Rank a sends a + b + count elements to rank b.
    std::vector<std::int64_t> gives;
    Values theirs;
    for (int r = 0; r < size_; ++r) {
      gives.push_back(count_ + r + me_);
      for (const double value : pattern(r * 7 + me_, gives.back())) theirs.push_back(value);
    }
    Values ours;
    for (int r = 0; r < size_; ++r)
      for (const double value : pattern(me_ * 7 + r, gives[static_cast<std::size_t>(r)]))
        ours.push_back(value);
    const Tensor in = make(ours);
    const Tensor out = make(Values(ours.size()));
    expect(all_to_all(in, out, gives, gives), out, theirs);
  }

 private:
  Tensor make(const Values& values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    if (!wrapped_) {
      const Tensor tensor = world_.allocate(dtype_, shape);
      write(tensor, values);
      return tensor;
    }
    own_.push_back(std::make_unique<std::byte[]>(values.size() * size_of(dtype_) + 64));
    const Tensor tensor = Tensor::wrap(own_.back().get(), dtype_, shape);
    write(tensor, values);
    return tensor;
  }
  Values everybody() const {
    Values all;
    for (int r = 0; r < size_; ++r)
      for (const double value : pattern(r, count_)) all.push_back(value);
    return all;
  }
  Values addressed() const {
    Values all;
    for (int r = 0; r < size_; ++r)
      for (const double value : pattern(me_ * 5 + r, count_)) all.push_back(value);
    return all;
  }
  Values received() const {
    Values all;
    for (int r = 0; r < size_; ++r)
      for (const double value : pattern(r * 5 + me_, count_)) all.push_back(value);
    return all;
  }
  static Values part(const Values& all, std::int64_t first, std::int64_t count) {
    return {all.begin() + first, all.begin() + first + count};
  }
  void run(const Call& call) {
    const Status status = group_.run(call);
    ASSERT_TRUE(status.ok()) << status.text();
  }
  void hold(const Tensor& tensor, const Values& expected, const char* what) {
    ASSERT_EQ(read(tensor), expected)
        << what << " of " << tensor.text() << ", rank " << me_ << " of " << size_
        << (in_place_ ? ", in place" : "") << (wrapped_ ? ", the user's memory" : "");
  }
  void expect(const Call& call, const Tensor& tensor, const Values& expected) {
    run(call);
    const std::string what = "kind " + std::to_string(static_cast<int>(call.kind)) +
                             ", reduction " + std::to_string(static_cast<int>(call.op.reduction()));
    hold(tensor, expected, what.c_str());
  }

  World& world_;
  Collectives& group_;
  const DType dtype_;
  const std::int64_t count_;
  const bool in_place_;
  const bool wrapped_;
  const int me_;
  const int size_;
  std::vector<std::unique_ptr<std::byte[]>> own_;
};

struct Layout {
  int ranks;
  const char* nodes = "off";  ///< the NUMA node of each
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.ranks << " ranks, nodes " << layout.nodes;
}

class EveryCall : public testing::TestWithParam<Layout> {};

Config settings_of(const Layout& layout) {
  return settings()
      .with(Setting::numa, layout.nodes)
      .with(Setting::coll, layout.nodes == std::string("off")
                               ? ""
                               : "all_reduce=two_level,reduce=two_level,reduce_scatter=two_level,"
                                 "broadcast=two_level,all_gather=two_level");
}

// The element type hardly changes which ranks race with each other or which memory they touch, and
// sanitizers are slow.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::array kTypes{DType::f32, DType::bf16};
constexpr std::array<std::int64_t, 3> kCounts{0, 7, 9000};
#else
constexpr std::array kTypes{DType::f64, DType::f32, DType::f16, DType::bf16,
                            DType::i64, DType::i32, DType::i8,  DType::u8};
constexpr std::array<std::int64_t, 5> kCounts{0, 1, 7, 1001, 9000};
#endif

TEST_P(EveryCall, GivesWhatTheReferenceGives) {
  run_on(GetParam().ranks, settings_of(GetParam()), [](World& world) {
    Collectives group = Collectives::open(world);
    for (const std::int64_t count : kCounts)
      for (const DType dtype : kTypes)
        for (const bool in_place : {false, true}) {
          // The largest takes the same paths for every combination.
          const bool large = count > 5000;
          Turn turn(world, group, dtype, count, in_place, count == 7 || (large && in_place));
          for (const Reduction reduction : kReductions)
            if (combines(dtype, reduction) && (!large || reduction == Reduction::sum))
              turn.combine(reduction);
          turn.move();
          if (!in_place) turn.move_unequal();
          if (testing::Test::HasFatalFailure()) return;
        }
    ASSERT_TRUE(group.run(barrier()).ok());
  });
}

/// Tensors that travel with the words of the call, in place, and in several exchanges between
/// hosts.
class Surprises : public testing::TestWithParam<const char*> {
 protected:
  void run(const std::function<void(World&, Collectives&, std::int64_t, Algorithm)>& body) const {
    run_on(4, settings().with(Setting::fabric, GetParam()), [&](World& world) {
      Collectives group = Collectives::open(world);
      for (const std::int64_t count : {1, 9000})
        for (const Algorithm algorithm :
             {Algorithm::direct, Algorithm::ring, Algorithm::halving, Algorithm::doubling})
          body(world, group, count, algorithm);
      ASSERT_TRUE(group.run(barrier()).ok());
    });
  }
  static void all_reduce_by(Collectives& group, const Tensor& tensor, Reduction reduction,
                            Algorithm algorithm) {
    Call call = all_reduce(tensor, reduction);
    call.algorithm = algorithm;
    call.deterministic = algorithm == Algorithm::direct;
    const Status status = group.run(call);
    ASSERT_TRUE(status.ok()) << status.text();
  }
};

TEST_P(Surprises, AnAverageOfTheLargestIsTheLargest) {
  run([](World& world, Collectives& group, std::int64_t count, Algorithm algorithm) {
    const Tensor bytes = world.allocate(DType::i8, {count});
    std::ranges::fill(bytes.as<std::int8_t>(), std::int8_t{127});
    all_reduce_by(group, bytes, Reduction::avg, algorithm);
    const Tensor longs = world.allocate(DType::i64, {count});
    std::ranges::fill(longs.as<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
    all_reduce_by(group, longs, Reduction::avg, algorithm);
    const Tensor floats = world.allocate(DType::f32, {count});
    std::ranges::fill(floats.as<float>(), std::numeric_limits<float>::max());
    all_reduce_by(group, floats, Reduction::avg, algorithm);
    EXPECT_EQ(bytes.as<std::int8_t>().back(), 127);
    EXPECT_EQ(longs.as<std::int64_t>().back(), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(floats.as<float>().back(), std::numeric_limits<float>::max());
  });
}

TEST_P(Surprises, ANanOfAnyRankReachesAllByMinAndMax) {
  run([](World& world, Collectives& group, std::int64_t count, Algorithm algorithm) {
    for (int odd = 0; odd < world.size(); ++odd)
      for (const Reduction reduction : {Reduction::min, Reduction::max}) {
        const Tensor tensor = world.allocate(DType::f32, {count});
        std::ranges::fill(tensor.as<float>(), static_cast<float>(world.rank()));
        if (world.rank() == odd)
          tensor.as<float>().back() = std::numeric_limits<float>::quiet_NaN();
        all_reduce_by(group, tensor, reduction, algorithm);
        EXPECT_TRUE(std::isnan(tensor.as<float>().back())) << "of rank " << odd;
      }
  });
}

TEST_P(Surprises, BooleansAreCombinedAsTruthValues) {
  run([](World& world, Collectives& group, std::int64_t count, Algorithm algorithm) {
    const auto truth = [&](bool mine, Reduction reduction) {
      const Tensor tensor = world.allocate(DType::boolean, {count});
      std::ranges::fill(std::span(tensor.data(), tensor.bytes()), std::byte{mine});
      all_reduce_by(group, tensor, reduction, algorithm);
      return std::to_integer<int>(tensor.data()[count - 1]);
    };
    EXPECT_EQ(truth(world.rank() == 2, Reduction::max), 1);
    EXPECT_EQ(truth(world.rank() != 2, Reduction::min), 0);
    EXPECT_EQ(truth(true, Reduction::bit_and), 1);
    EXPECT_EQ(truth(world.rank() < 3, Reduction::bit_xor), 1);
    const Status refused =
        group.run(all_reduce(world.allocate(DType::boolean, {count}), Reduction::sum));
    EXPECT_EQ(refused.code(), Code::bad_argument) << refused.text();
  });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Surprises, testing::Values("auto", "tcp"));

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
INSTANTIATE_TEST_SUITE_P(Ranks, EveryCall, testing::Values(Layout{2}, Layout{3}, Layout{5}));
INSTANTIATE_TEST_SUITE_P(NumaNodes, EveryCall, testing::Values(Layout{4, "0,0,1,1"}));
#else
INSTANTIATE_TEST_SUITE_P(Ranks, EveryCall,
                         testing::Values(Layout{1}, Layout{2}, Layout{3}, Layout{4}, Layout{5},
                                         Layout{8}));
INSTANTIATE_TEST_SUITE_P(NumaNodes, EveryCall,
                         testing::Values(Layout{4, "0,0,1,1"}, Layout{4, "0,1,0,1"},
                                         Layout{6, "0,0,1,1,2,2"}, Layout{8, "1,1,1,1,0,0,0,0"}));
#endif

}  // namespace
}  // namespace weft::tests
