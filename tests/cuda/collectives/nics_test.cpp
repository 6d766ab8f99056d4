// Collectives between hosts whose tensors go from GPU to GPU by NICs.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "tests/cuda/collectives/nics.hpp"
#include "weft/collective.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

// ThreadSanitizer is slow, and shows the same races with less.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 4;
constexpr std::int64_t kManyPieces = (std::int64_t{1} << 20) / 4 + 77;
constexpr std::array kNumbersOfRanks{2};
#else
constexpr std::uint64_t kSeeds = 30;
constexpr std::int64_t kManyPieces = (std::int64_t{3} << 20) / 4 + 77;
constexpr std::array kNumbersOfRanks{2, 3, 4};
#endif

Call with(Algorithm algorithm, Call call) {
  call.algorithm = algorithm;
  return call;
}

class ByNics : public OnNics {
 protected:
  /// The calls of all kinds on tensors in that memory, each with what its rank's tensors hold then.
  static std::vector<Bytes> outcomes(World& world, Collectives& group, Memory memory,
                                     std::int64_t part, std::uint64_t seed) {
    const int ranks = world.size();
    const std::int64_t whole = part * ranks;
    const auto me = static_cast<std::uint64_t>(world.rank());
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
    std::vector<Bytes> all;
    for (const Call& call : calls) {
      group.run(call).or_throw();
      Bytes now;
      for (const Tensor& tensor : {a, b, c}) {
        const Bytes bytes = bytes_of(world, tensor);
        now.insert(now.end(), bytes.begin(), bytes.end());
      }
      all.push_back(std::move(now));
    }
    return all;
  }
};

TEST_F(ByNics, GiveWhatAllKindsGive) {
  for (const int ranks : {2, 3, 4})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      for (const std::int64_t part : {1, 300, 40'003}) {
        const auto wanted = outcomes(world, group, {}, part, 1);
        const auto given = outcomes(world, group, Memory::gpu(), part, 1);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          EXPECT_EQ(given[i] == wanted[i], true)
              << "call " << i << " of rank " << world.rank() << ", " << ranks << " ranks, " << part
              << " elements";
      }
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

TEST_F(ByNics, GiveTheBitsOfHostMemoryForEveryTypeAndReduction) {
  for (const int ranks : kNumbersOfRanks)
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      for (const DType dtype : kDtypes)
        for (const Reduction reduction : kReductions) {
          if (!is_allowed(dtype, reduction)) continue;
          const std::int64_t count = 1003;  // neither whole packs nor equal shares
          const Bytes mine =
              elements(dtype, reduction, count, 7 + static_cast<std::uint64_t>(world.rank()));
          for (const Algorithm algorithm :
               {Algorithm::direct, Algorithm::allgather_then_reduce, Algorithm::doubling,
                Algorithm::halving, Algorithm::ring}) {
            if (algorithm == Algorithm::halving && ranks == 3) continue;
            const auto sum = [&](Memory memory) {
              const Tensor in = put_on(world, memory, dtype, mine);
              const Tensor out = put_on(world, memory, dtype, Bytes(mine.size()));
              Call call = with(algorithm, all_reduce(in.part(1, {count - 2}),
                                                     out.part(1, {count - 2}), reduction));
              if (algorithm == Algorithm::ring) call.deterministic = false;
              group.run(call).or_throw();
              return bytes_of(world, out);
            };
            EXPECT_EQ(sum(Memory::gpu()) == sum({}), true)
                << name(dtype) << ", reduction " << static_cast<int>(reduction) << ", " << ranks
                << " ranks, algorithm " << static_cast<int>(algorithm);
          }
        }
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

/// A kernel or a put that reads too early shows: streams are as late as they may be, and a NIC's
/// writes are not there before a flush.
TEST_F(ByNics, DoSoHoweverLateTheStreamsAre) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    const stand_in::Options lazy{
        .pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(1)};
    ASSERT_EQ(control()->restart(with_flushes(seed % 2 == 0, lazy)), std::vector<std::string>{});
    run(
        2 + static_cast<int>(seed % 3),
        [&](World& world) {
          auto group = Collectives::open(world);
          const auto wanted = outcomes(world, group, {}, 1500, seed);
          EXPECT_EQ(outcomes(world, group, Memory::gpu(), 1500, seed) == wanted, true)
              << "seed " << seed;
          // Of several pieces a link, by each algorithm.
          constexpr std::array kBy{Algorithm::direct, Algorithm::ring, Algorithm::doubling};
          const Bytes mine = elements(DType::f16, Reduction::sum, 200'003,
                                      seed + static_cast<std::uint64_t>(world.rank()));
          std::vector<Bytes> sums;
          for (const Memory memory : {Memory(), Memory::gpu()}) {
            const Tensor tensor = put_on(world, memory, DType::f16, mine);
            Call call = with(kBy.at(seed % kBy.size()), all_reduce(tensor, Reduction::avg));
            call.deterministic = call.algorithm != Algorithm::ring;
            group.run(call).or_throw();
            sums.push_back(bytes_of(world, tensor));
          }
          EXPECT_EQ(sums[0] == sums[1], true) << "seed " << seed;
          EXPECT_EQ(group.staged_bytes(), 0U) << "seed " << seed;
        },
        {}, settings(), seed);
  }
}

TEST_F(ByNics, MoveTensorsOfManyPieces) {
  const std::int64_t count = kManyPieces;
  for (const int ranks : {2, 3})
    run(ranks, [&](World& world) {
      auto group = Collectives::open(world);
      const auto me = static_cast<std::uint64_t>(world.rank());
      const Bytes mine = elements(DType::f32, Reduction::sum, count, 5 + me);
      for (const Algorithm algorithm :
           {Algorithm::automatic, Algorithm::direct, Algorithm::doubling, Algorithm::ring}) {
        std::vector<Bytes> given;
        for (const Memory memory : {Memory(), Memory::gpu()}) {
          const Tensor tensor = put_on(world, memory, DType::f32, mine);
          Call call = with(algorithm, all_reduce(tensor, Reduction::avg));
          call.deterministic = algorithm != Algorithm::ring;
          Plan plan = group.plan(call);
          for (int i = 0; i < 2; ++i) plan.run().or_throw();
          given.push_back(bytes_of(world, tensor));
        }
        EXPECT_EQ(given[0] == given[1], true) << static_cast<int>(algorithm);
      }
      EXPECT_EQ(group.staged_bytes(), 0U);
    });
}

TEST_F(ByNics, CountFlushesAndKernels) {
  run(2, [](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, Memory::gpu(), counted(5000));
    std::uint64_t flushes = 0;
    for (int i = 0; i < 3; ++i) {
      group.run(all_reduce(tensor, Reduction::max)).or_throw();
      std::uint64_t now = 0;
      std::uint64_t staged = 0;
      for (const EdgeReport& edge : world.report().edges) {
        now += edge.counters.gpu_flushes;
        staged += edge.counters.staged_bytes;
      }
      EXPECT_GT(now, flushes);
      EXPECT_EQ(staged, 0U);
      flushes = now;
    }
    EXPECT_EQ(elements_of(world, tensor), counted(5000));
    meet(world);
  });
}

TEST_F(ByNics, AreUnderWayTogether) {
  run(3, [](World& world) {
    auto group = Collectives::open(world);
    const ReduceOp sum = Reduction::sum;
    std::vector<Tensor> tensors;
    std::vector<Plan> plans;
    for (int i = 0; i < 4; ++i) {
      // One of them is mixed: a rank's lies in host memory.
      const Memory memory = i == 2 && world.rank() == 1 ? Memory() : Memory::gpu();
      tensors.push_back(tensor_of(world, memory, std::vector<float>(4000, 1)));
      plans.push_back(group.plan(all_reduce(tensors.back(), sum)));
    }
    float wanted = 1;
    for (int turn = 0; turn < 3; ++turn) {
      for (Plan& plan : plans) plan.start().or_throw();
      for (Plan& plan : plans) plan.wait().or_throw();
      wanted *= 3;
      for (const Tensor& tensor : tensors)
        EXPECT_EQ(elements_of(world, tensor), std::vector<float>(4000, wanted));
    }
    EXPECT_EQ(group.staged_bytes(), world.rank() == 1 ? 0U : 3 * 2 * 4 * 4000U);
  });
}

/// Where a rank's NIC does not reach its GPU, or its tensor lies elsewhere, all go by host memory.
TEST_F(ByNics, GoByHostMemoryWhereOneRankMust) {
  const auto expect_host = [&](const std::function<NicSpec(int)>& nic_of, const Config& more,
                               Memory of_rank_1) {
    run(
        3,
        [&](World& world) {
          auto group = Collectives::open(world);
          const Memory memory = world.rank() == 1 ? of_rank_1 : Memory::gpu();
          const Tensor tensor = tensor_of(world, memory, std::vector<float>(5000, 2));
          std::uint64_t staged = 0;
          for (int i = 0; i < 3; ++i) {
            group.run(all_reduce(tensor, Reduction::max)).or_throw();
            group.run(broadcast(tensor, 1)).or_throw();
            EXPECT_EQ(elements_of(world, tensor), std::vector<float>(5000, 2));
            EXPECT_EQ(group.staged_bytes() > staged, memory.is_gpu());
            staged = group.staged_bytes();
          }
        },
        nic_of, more);
  };
  const auto unfit = [](int rank) {
    return rank == 1 ? NicSpec{.dma_buf = false, .peermem = false} : NicSpec{};
  };
  expect_host(unfit, settings(), Memory::gpu());
  expect_host({}, settings(), Memory());
  expect_host({}, settings().with(Setting::gpu_flush, "none"), Memory::gpu());
  expect_host({}, settings().with(Setting::gdr_level, "never"), Memory::gpu());
  control()->refuse("cuMemGetHandleForAddressRange", 1, DriverStatus::not_supported);
  expect_host([](int) { return NicSpec{.peermem = false}; }, settings(), Memory::gpu());
}

TEST_F(ByNics, ServeWhereGpuDirectIsRequired) {
  run(
      2,
      [](World& world) {
        auto group = Collectives::open(world);
        const Tensor tensor = tensor_of(world, Memory::gpu(), counted(5000));
        for (int i = 0; i < 2; ++i) group.run(all_reduce(tensor, Reduction::max)).or_throw();
        EXPECT_EQ(elements_of(world, tensor), counted(5000));
        EXPECT_EQ(group.staged_bytes(), 0U);
      },
      {}, settings().with(Setting::require, "gdr"));
}

TEST_F(ByNics, GoByHostMemoryForOtherCalls) {
  run(2, [](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, Memory::gpu(), counted(100));
    const auto is_staged = [&](const Call& call) {
      const std::uint64_t before = group.staged_bytes();
      group.run(call).or_throw();
      return group.staged_bytes() != before;
    };
    EXPECT_FALSE(is_staged(all_reduce(tensor, Reduction::max)));
    const ReduceFunction larger = [](std::byte* to, const std::byte* from, std::int64_t count,
                                     DType) {
      auto* const a = reinterpret_cast<float*>(to);
      const auto* const b = reinterpret_cast<const float*>(from);
      for (std::int64_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
    };
    EXPECT_TRUE(is_staged(all_reduce(tensor, ReduceOp(larger))));
    EXPECT_TRUE(is_staged(scan(tensor, tensor, Reduction::max)));
    const Tensor other = tensor_of(world, Memory::gpu(1), counted(100));
    EXPECT_TRUE(is_staged(all_reduce(other, Reduction::max))) << "slots lie on the first GPU";
    EXPECT_FALSE(is_staged(all_reduce(tensor, Reduction::max)));
    EXPECT_EQ(elements_of(world, tensor), counted(100));
  });
}

/// A root in host memory may have left before the others ask whether its GPU takes part.
TEST_F(ByNics, TakeWhatARankThatHasGoneHasSentByHostMemory) {
  for (const bool leaves : {false, true}) {
    Meeting gone(3);
    run(3, [&](World& world) {
      auto group = std::make_unique<Collectives>(Collectives::open(world));
      const Memory memory = world.rank() == 0 ? Memory() : Memory::gpu();
      const Tensor tensor = tensor_of(world, memory, std::vector<float>(500, 3));
      group->run(broadcast(tensor, 0)).or_throw();
      if (world.rank() == 0) {
        const Tensor last = tensor_of(world, {}, std::vector<float>(500, 4));
        group->run(broadcast(last, 0)).or_throw();
        group.reset();
        gone.wait();
        if (leaves) world.leave().or_throw();
        return;
      }
      gone.wait();
      group->run(broadcast(tensor, 0)).or_throw();
      EXPECT_EQ(elements_of(world, tensor), std::vector<float>(500, 4));
    });
  }
}

/// Planted defects show in what the tests above compare.
TEST_F(ByNics, WouldShowAPutAheadOfItsKernelOrAKernelAheadOfItsFlush) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the race that is planted here is one that the sanitizer reports";
#endif
  for (const bool claims : {true, false}) {
    std::atomic<int> wrong{0};
    for (std::uint64_t seed = 1; seed <= 8 && wrong == 0; ++seed) {
      const stand_in::Options lazy{
          .pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(1)};
      ASSERT_EQ(control()->restart(with_flushes(true, lazy)), std::vector<std::string>{});
      Meeting known(2);
      run(2, [&](World& world) {
        auto group = Collectives::open(world);
        const Tensor first = tensor_of(world, Memory::gpu(), std::vector<float>(5000, 1));
        group.run(all_reduce(first, Reduction::sum)).or_throw();
        const Tensor in = tensor_of(world, Memory::gpu(), std::vector<float>(5000, 1));
        const Tensor out = tensor_of(world, Memory::gpu(), std::vector<float>(5000, 0));
        known.wait();
        if (claims)
          control()->claim_ends(1000);
        else
          control()->ignore_flushes(true);
        known.wait();
        group.run(with(Algorithm::direct, all_reduce(in, out, Reduction::sum))).or_throw();
        known.wait();
        control()->claim_ends(0);
        std::vector<float> given(5000);
        // By the processor, at once.
        const std::byte* const at =
            control()->reach(address(out.data()), out.bytes(), out.memory().ordinal());
        std::memcpy(given.data(), at, out.bytes());
        if (given != std::vector<float>(5000, 2)) ++wrong;
        known.wait();
        control()->ignore_flushes(false);
        // On the same streams, behind the work whose end was only claimed.
        group.run(all_reduce(first, Reduction::sum)).or_throw();
      });
      (void)control()->take_complaints();
    }
    EXPECT_GT(wrong, 0) << (claims ? "an end that is only claimed" : "a flush that is none");
  }
}

}  // namespace
}  // namespace weft::tests

#endif
