// Collectives between hosts whose tensors go from GPU to GPU by NICs.
#include "tests/cuda/collectives/elements.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using p2p::verbs::fake::FakeNetwork;
using p2p::verbs::fake::NicSpec;
using std::chrono::milliseconds;
Call with(Algorithm algorithm, Call call) {
  call.algorithm = algorithm;
  return call;
}

class ByNics : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's memory";
  }
  stand_in::Options options() const override { return with_flushes(true); }

  void run(int ranks, const std::function<void(World&)>& body, const NicSpec& nic = {},
           const Config& more = settings(), std::uint64_t seed = 1) {
    FakeNetwork network(with_gpus(seed));
    run_ranks(ranks, body, more.with(Setting::fabric, "verbs").with(Setting::log, "off"),
              [&](int rank) { return network.devices(rank, {nic}); });
    EXPECT_EQ(network.complaints() + network.left_behind(), "");
  }

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
  for (const int ranks : {2, 3, 4})
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

}  // namespace
}  // namespace weft::tests

#endif
