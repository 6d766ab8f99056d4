// Groups of several hosts with several ranks each: GPUs copy within a host, NICs between hosts.
#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/shm/shm_fabric.hpp"
#include "p2p/transport/verbs/make_fabric.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/cuda/collectives/nics.hpp"
#include "tests/cuda/slots/streams.hpp"
#include "tests/support/soon.hpp"
#include "weft/collective.hpp"

#if defined(WEFT_TEST_FAKE_NIC)

namespace weft::tests {
namespace {

using p2p::RankAddress;
using std::chrono::milliseconds;

/// Shared memory of a machine that takes its ranks for those of several hosts, two each.
class TwoAHost final : public p2p::Fabric {
 public:
  TwoAHost(p2p::LocalRank& local, p2p::ProgressThread& progress, p2p::FabricEvents& events)
      : rank_(local.rank), shm_(local, progress, events) {}
  p2p::FabricKind kind() const noexcept override { return shm_.kind(); }
  p2p::Reach reaches(const RankAddress& own, const RankAddress& peer) const override {
    return shm_.reaches(own, peer);
  }
  void listen(RankAddress& own) override {
    own.host_id[0] ^= static_cast<std::byte>(rank_ / 2 + 1);
    shm_.listen(own);
  }
  void open(const std::vector<RankAddress>& job) override { shm_.open(job); }
  void connect(int rank) override { shm_.connect(rank); }
  bool fence(int rank) override { return shm_.fence(rank); }
  void drain() noexcept override { shm_.drain(); }

 private:
  const int rank_;
  p2p::ShmFabric shm_;
};

class SeveralAHost : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's memory";
  }
  stand_in::Options options() const override { return with_flushes(true); }

  static void run(int ranks, const std::function<void(World&)>& body, std::uint64_t seed = 1,
                  const Config& more = settings()) {
    p2p::verbs::fake::FakeNetwork network(with_gpus(seed));
    const Config config = more.with(Setting::log, "off");
    run_ranks(ranks, body, config, {}, [&](p2p::LocalRank& local, p2p::FabricEvents& events) {
      auto& progress = dynamic_cast<p2p::ProgressThread&>(local.progress);
      std::vector<std::unique_ptr<p2p::Fabric>> fabrics;
      fabrics.push_back(std::make_unique<TwoAHost>(local, progress, events));
      fabrics.push_back(
          p2p::verbs::make_fabric(local, progress, events, config,
                                  network.devices(local.rank, {p2p::verbs::fake::NicSpec{}})));
      return fabrics;
    });
    EXPECT_EQ(network.complaints() + network.left_behind(), "");
  }
  static Memory own_gpu(const World& world) { return Memory::gpu(world.rank() % 2); }

  /// Calls give the bits of host memory, by every algorithm that serves them.
  static void expect_the_same(World& world, std::int64_t count, std::uint64_t seed) {
    auto group = Collectives::open(world);
    const auto me = static_cast<std::uint64_t>(world.rank());
    for (const Algorithm algorithm :
         {Algorithm::automatic, Algorithm::direct, Algorithm::allgather_then_reduce,
          Algorithm::ring, Algorithm::doubling, Algorithm::two_level}) {
      // Which takes hosts of equal numbers of ranks.
      if (algorithm == Algorithm::two_level && world.size() % 2 != 0) continue;
      std::vector<Bytes> given;
      for (const Memory memory : {Memory(), own_gpu(world)}) {
        const Tensor in = put_on(world, memory, DType::bf16,
                                 elements(DType::bf16, Reduction::sum, count, seed + me));
        const Tensor out = put_on(world, memory, DType::bf16, Bytes(in.bytes()));
        Call call = all_reduce(in, out, Reduction::sum);
        call.algorithm = algorithm;
        call.deterministic = algorithm != Algorithm::ring;
        group.run(call).or_throw();
        call = broadcast(in, world.size() - 1);
        if (algorithm != Algorithm::allgather_then_reduce) call.algorithm = algorithm;
        group.run(call).or_throw();
        given.push_back(bytes_of(world, out));
        given.push_back(bytes_of(world, in));
      }
      EXPECT_EQ(given[0] == given[2] && given[1] == given[3], true)
          << "algorithm " << static_cast<int>(algorithm) << ", " << count << " elements";
    }
    EXPECT_EQ(group.staged_bytes(), 0U);
  }
};

TEST_F(SeveralAHost, GiveTheBitsOfHostMemory) {
  for (const int ranks : {3, 4})
    run(ranks, [](World& world) {
      for (const std::int64_t count : {1, 1003, 700'001}) expect_the_same(world, count, 3);
    });
}

TEST_F(SeveralAHost, DoSoHoweverLateTheStreamsAre) {
  for (std::uint64_t seed = 1; seed <= 10 && !HasFailure(); ++seed) {
    const stand_in::Options lazy{
        .pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(1)};
    ASSERT_EQ(control()->restart(with_flushes(true, lazy)), std::vector<std::string>{});
    run(
        4, [&](World& world) { expect_the_same(world, 5003, seed); }, seed);
  }
}

TEST_F(SeveralAHost, GoByHostMemoryWhereGpusDoNotReachEachOther) {
  stand_in::Options options = with_flushes(true);
  options.peer_access = false;
  ASSERT_EQ(control()->restart(options), std::vector<std::string>{});
  // Where GPUDirect is required, the slots on GPUs are refused, and the group goes on without them.
  for (const Config& more : {settings(), settings().with(Setting::require, "gdr")})
    run(
        4,
        [](World& world) {
          auto group = Collectives::open(world);
          const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(3000, 2));
          for (int i = 0; i < 3; ++i) {
            const std::uint64_t before = group.staged_bytes();
            Call call = all_reduce(tensor, Reduction::max);
            call.algorithm = Algorithm::direct;
            group.run(call).or_throw();
            EXPECT_EQ(group.staged_bytes() - before, 2 * 4 * 3000U);
          }
          EXPECT_EQ(elements_of(world, tensor), std::vector<float>(3000, 2));
        },
        1, more);
}

/// Threads must not look again and again for paths that no call awaits any more.
TEST_F(SeveralAHost, NameTheRankWhosePathIsNotProvenAndSleepOnceTheyHaveGivenUp) {
  const stand_in::Options lazy{.pace = stand_in::Pace::lazy, .idle = milliseconds(0)};
  ASSERT_EQ(control()->restart(with_flushes(true, lazy)), std::vector<std::string>{});
  Meeting step(4);
  run(4, [&](World& world) {
    auto group = Collectives::open(world);
    const Tensor tensor = tensor_of(world, own_gpu(world), std::vector<float>(3000, 2));
    Call call = all_reduce(tensor, Reduction::max);
    call.algorithm = Algorithm::direct;
    Plan plan = group.plan(call);
    p2p::Waiter& waiter = WorldAccess::state(world).local.waiter;
    step.wait();
    // The copies that prove a path do not end.
    if (world.rank() == 0) control()->stop_clock(true);
    step.wait();
    plan.start().or_throw();
    EXPECT_TRUE(soon([&] { return plan.test() || waiter.has_silent(); }));
    step.wait();
    // This rank's GPU has no part yet.
    EXPECT_TRUE(tells(plan.wait(Deadline::after(milliseconds(300))), Code::timeout,
                      {"rank", "entered it, but"}));
    step.wait();
    plan = {};
    EXPECT_FALSE(waiter.has_silent());
    step.wait();
    if (world.rank() == 0) control()->stop_clock(false);
    EXPECT_OK_STATUS(group.settle(Deadline::after(std::chrono::seconds(10))));
    step.wait();
  });
}

}  // namespace
}  // namespace weft::tests

#endif
