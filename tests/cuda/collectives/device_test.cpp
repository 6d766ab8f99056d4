// Collectives that the GPUs of one host carry out on each other's memory.
#include <algorithm>

#include "tests/cuda/collectives/elements.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class OnDevices : public OnGpus {
 protected:
  static void run(int ranks, const std::function<void(World&)>& body) {
    run_on(ranks, settings().with(Setting::log, "off").with(Setting::fabric, "shm"), body);
  }
  /// All kinds that GPUs carry out give what they give on host memory.
  static void expect_the_same(World& world, Collectives& group, std::uint64_t seed) {
    const std::int64_t part = 300;
    const int ranks = world.size();
    const std::int64_t whole = part * ranks;
    const auto me = static_cast<std::uint64_t>(world.rank());
    std::vector<Bytes> wanted;
    for (const Memory memory : {Memory(), Memory::gpu()}) {
      const auto make = [&](std::int64_t count, std::uint64_t nth) {
        return put_on(world, memory, DType::f32,
                      elements(DType::f32, Reduction::sum, count, seed + 100 * me + nth));
      };
      const Tensor a = make(whole, 1), b = make(whole, 2), c = make(part, 3);
      const ReduceOp sum = Reduction::sum;
      const std::vector<Call> calls{all_reduce(a, b, sum),
                                    all_reduce(a.part(1, {whole - 1}), sum),
                                    broadcast(b, ranks - 1),
                                    reduce(b, a, sum, 0),
                                    reduce_scatter(a, c, sum),
                                    all_gather(c, b),
                                    reduce_scatter(a, a.part(part * world.rank(), {part}), sum),
                                    all_gather(b.part(part * world.rank(), {part}), b)};
      for (std::size_t i = 0; i < calls.size(); ++i) {
        group.run(calls[i]).or_throw();
        Bytes all;
        for (const Tensor& tensor : {a, b, c}) {
          const Bytes bytes = bytes_of(world, tensor);
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
        if (memory.is_host())
          wanted.push_back(std::move(all));
        else
          EXPECT_EQ(all, wanted[i]) << "call " << i << " of rank " << world.rank();
      }
    }
  }
};

TEST_F(OnDevices, GiveTheBitsOfHostMemoryForEveryTypeAndReduction) {
  for (const int ranks : {2, 3, 4})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      for (const DType dtype : kDtypes)
        for (const Reduction reduction : kReductions) {
          if (!is_allowed(dtype, reduction)) continue;
          const std::int64_t count = 1003;  // neither whole packs nor equal slices
          const Bytes mine =
              elements(dtype, reduction, count, 7 + static_cast<std::uint64_t>(world.rank()));
          for (const std::int64_t from : {0, 1}) {
            const auto sum = [&](Memory memory) {
              const Tensor in = put_on(world, memory, dtype, mine);
              const Tensor out = put_on(world, memory, dtype, Bytes(mine.size()));
              group
                  .run(all_reduce(in.part(from, {count - 2}), out.part(from, {count - 2}),
                                  reduction))
                  .or_throw();
              return bytes_of(world, out);
            };
            EXPECT_EQ(sum(Memory::gpu()), sum({}))
                << name(dtype) << ", reduction " << static_cast<int>(reduction) << ", " << ranks
                << " ranks, from " << from;
          }
        }
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

TEST_F(OnDevices, GiveMeansThatAreFiniteWhereTheSumIsNot) {
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const std::vector<float> large(100, std::numeric_limits<float>::max());
    const Tensor gpu = tensor_of(world, Memory::gpu(), large);
    group.run(all_reduce(gpu, Reduction::avg)).or_throw();
    EXPECT_EQ(elements_of(world, gpu), large);
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

TEST_F(OnDevices, GiveWhatAllKindsGive) {
  for (const int ranks : {2, 3, 4})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      expect_the_same(world, group, 1);
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

TEST_F(OnDevices, DoSoHoweverLateTheStreamsAre) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
#if defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kSeeds = 20;
#else
  constexpr std::uint64_t kSeeds = 100;
#endif
  for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    ASSERT_EQ(
        control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(1)}),
        std::vector<std::string>{});
    run(2 + static_cast<int>(seed % 3), [&](World& world) {
      auto group = Collectives::open(world);
      expect_the_same(world, group, seed);
      EXPECT_EQ(group.staged_bytes(), 0U) << "seed " << seed;
    });
  }
}

TEST_F(OnDevices, TakePlansAndCountsAndPartsOfNothing) {
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const std::vector<std::int64_t> counts{500, 0, 700};
    const auto rank = static_cast<std::size_t>(world.rank());
    const auto plans = [&](Memory memory) {
      const auto make = [&](std::int64_t count, std::uint64_t nth) {
        return put_on(world, memory, DType::i32,
                      elements(DType::i32, Reduction::sum, count, 10 * nth + rank));
      };
      const std::array tensors{make(1200, 1), make(counts[rank] + 1, 2), make(1200, 3)};
      const Tensor part = tensors[1].part(0, {counts[rank]});
      std::vector<Plan> made;
      made.push_back(group.plan(all_reduce(tensors[0], Reduction::bit_xor)));
      made.push_back(group.plan(reduce_scatter(tensors[0], part, Reduction::max, counts)));
      made.push_back(group.plan(all_gather(part, tensors[2], counts)));
      for (int run = 0; run < 3; ++run) {
        for (Plan& plan : made) plan.start().or_throw();
        for (Plan& plan : made) plan.wait().or_throw();
      }
      Bytes all;
      for (const Tensor& tensor : tensors) {
        const Bytes bytes = bytes_of(world, tensor);
        all.insert(all.end(), bytes.begin(), bytes.end());
      }
      return all;
    };
    const Bytes wanted = plans({});
    EXPECT_EQ(plans(Memory::gpu()), wanted);
    EXPECT_EQ(group.staged_bytes(), 0U);
  });
}

TEST_F(OnDevices, CostOneKernelEachInTheSteadyState) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(), counted(5000));
    Plan plan = group.plan(all_reduce(gpu, Reduction::max));
    const auto turn = [&] { plan.run().or_throw(); };
    std::uint64_t before = 0;
    if (world.rank() == 0) {
      turn();
      before = control()->calls("cuLaunchKernel");
      expect_steady(*control(), 0, turn);
    } else {
      for (int i = 0; i < 15; ++i) turn();
    }
    group.run(barrier()).or_throw();
    // The first turn of rank 1 may have been counted or not.
    if (world.rank() == 0) {
      EXPECT_NEAR(static_cast<double>(control()->calls("cuLaunchKernel") - before), 28, 1);
      EXPECT_EQ(control()->calls("cuStreamWaitValue32_v2"), 0U) << "no stream waits for a rank";
    }
    EXPECT_EQ(elements_of(world, gpu), counted(5000));
  });
}

/// Machines on which no GPU reaches the other's memory.
struct Broken {
  std::string name;
  stand_in::Options options;
  std::string refused{};
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class OnBrokenDevices : public OnDevices, public testing::WithParamInterface<Broken> {
 protected:
  stand_in::Options options() const override { return GetParam().options; }
};

TEST_P(OnBrokenDevices, GoThroughHostMemory) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const auto refuse = [&] {
      group.run(barrier()).or_throw();
      if (!GetParam().refused.empty() && world.rank() == 0)
        control()->refuse(GetParam().refused, 1, DriverStatus::not_supported);
      group.run(barrier()).or_throw();
    };
    refuse();
    const Tensor gpu = tensor_of(world, Memory::gpu(), counted(3000));
    Plan plan = group.plan(all_reduce(gpu, Reduction::max));
    for (int run = 0; run < 3; ++run) plan.run().or_throw();
    EXPECT_EQ(elements_of(world, gpu), counted(3000));
    EXPECT_EQ(group.staged_bytes(), 3 * 2 * 12000U);
    expect_the_same(world, group, 3);
  });
}

std::vector<Broken> broken_machines() {
  return {{"no_access", {.peer_access = false}},
          {"writes_lost", {.peer_writes_lost = true}},
          {"writes_astray", {.peer_writes_astray = true}},
          {"no_exports", without_exports()},
          {"no_kernels", {}, "cuModuleLoadData"}};
}

INSTANTIATE_TEST_SUITE_P(Machines, OnBrokenDevices, testing::ValuesIn(broken_machines()),
                         [](const auto& info) { return info.param.name; });

TEST_F(OnDevices, MixWithRanksWhoseTensorsLieInHostMemory) {
  run(3, [&](World& world) {
    auto group = Collectives::open(world);
    const Memory mine = world.rank() == 1 ? Memory() : Memory::gpu();
    std::vector<Tensor> tensors;
    std::vector<Plan> plans;
    for (int i = 0; i < 4; ++i) {
      // Two of them by host memory, beside two that the GPUs carry out.
      tensors.push_back(tensor_of(world, i % 2 == 0 ? mine : Memory::gpu(), counted(4000)));
      plans.push_back(group.plan(all_reduce(tensors.back(), Reduction::max)));
    }
    for (int run = 0; run < 3; ++run) {
      for (Plan& plan : plans) plan.start().or_throw();
      for (Plan& plan : plans) plan.wait().or_throw();
    }
    for (const Tensor& tensor : tensors) EXPECT_EQ(elements_of(world, tensor), counted(4000));
    EXPECT_EQ(group.staged_bytes(), world.rank() == 1 ? 0U : 3 * 2 * 2 * 16000U);
    group.run(barrier()).or_throw();
  });
}

TEST_F(OnDevices, RefuseAnotherCallOfAMember) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(), counted(3000));
    const auto reduction = world.rank() == 0 ? Reduction::sum : Reduction::max;
    EXPECT_TRUE(tells(group.run(all_reduce(gpu, reduction)), Code::mismatch,
                      {"call 1", "all_reduce(f32[3000], sum)", "all_reduce(f32[3000], max)"}));
    EXPECT_EQ(elements_of(world, gpu), counted(3000)) << "it is as it was";
  });
}

TEST_F(OnDevices, NameTheMemberThatIsLate) {
  run(2, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(), counted(3000));
    Plan plan = group.plan(all_reduce(gpu, Reduction::max));
    plan.run().or_throw();
    if (world.rank() == 0) {
      plan.start().or_throw();
      EXPECT_TRUE(tells(plan.wait(Deadline::after(milliseconds(50))), Code::timeout,
                        {"call 2 of the group", "rank 1"}));
    }
    meet(world);
    if (world.rank() == 1) plan.start().or_throw();
    plan.wait().or_throw();
    EXPECT_EQ(elements_of(world, gpu), counted(3000));
    // A call without a plan ends its group.
    if (world.rank() == 0) {
      EXPECT_TRUE(
          tells(group.run(all_reduce(gpu, Reduction::max), Deadline::after(milliseconds(80))),
                Code::timeout, {"rank 1"}));
    }
    meet(world, "end");
    if (world.rank() == 1) {
      EXPECT_TRUE(tells(plan.run(), Code::cancelled, {"rank 0 has given up"}));
    }
    EXPECT_EQ(elements_of(world, gpu), counted(3000));
  });
}

TEST_F(OnDevices, EndTheGroupWhereAGpuFails) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  for (const std::string function : {"cuLaunchKernel", "cuEventRecord"}) {
    run(2, [&](World& world) {
      auto group = Collectives::open(world);
      const Tensor gpu = tensor_of(world, Memory::gpu(), counted(3000));
      Plan plan = group.plan(all_reduce(gpu, Reduction::max));
      plan.run().or_throw();
      meet(world);
      if (world.rank() == 0) control()->refuse(function, 1, DriverStatus::unknown);
      meet(world, "again");
      const Status end = plan.run();
      EXPECT_TRUE(tells(end, Code::system, {"CUDA_ERROR_UNKNOWN", function, "part: GPU"}));
      EXPECT_EQ(plan.run().code(), Code::system) << "the group has ended";
      meet(world, "end");
    });
  }
}

}  // namespace
}  // namespace weft::tests
