// Collectives on tensors on GPUs give what they give on host memory, in place too.
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/collective.hpp"

namespace weft::tests {
namespace {

/// One call, on tensors that a rank makes of its elements wherever they are to lie.
struct Case {
  std::string name;
  std::size_t in;   ///< elements
  std::size_t out;  ///< 0: the call works in place, or within `in`
  std::function<Call(const Tensor& in, const Tensor& out)> call;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> cases() {
  const ReduceOp sum = Reduction::sum;
  const auto part_of = [](const Tensor& whole, std::int64_t first, std::int64_t count) {
    return whole.part(first, {count});
  };
  return {
      {"broadcast", 50, 0, [](const Tensor& in, const Tensor&) { return broadcast(in, 1); }},
      {"reduce", 50, 50,
       [=](const Tensor& in, const Tensor& out) { return reduce(in, out, sum, 1); }},
      {"all_reduce", 5000, 5000,
       [=](const Tensor& in, const Tensor& out) { return all_reduce(in, out, sum); }},
      {"all_reduce_in_place", 50, 0,
       [=](const Tensor& in, const Tensor&) { return all_reduce(in, sum); }},
      {"reduce_scatter", 60, 30,
       [=](const Tensor& in, const Tensor& out) { return reduce_scatter(in, out, sum); }},
      {"all_gather", 30, 60,
       [](const Tensor& in, const Tensor& out) { return all_gather(in, out); }},
      {"gather", 30, 60, [](const Tensor& in, const Tensor& out) { return gather(in, out, 0); }},
      {"scatter", 60, 30, [](const Tensor& in, const Tensor& out) { return scatter(in, out, 0); }},
      {"all_to_all", 60, 60,
       [](const Tensor& in, const Tensor& out) { return all_to_all(in, out); }},
      {"scan", 50, 50, [=](const Tensor& in, const Tensor& out) { return scan(in, out, sum); }},
      {"all_gather_of_own_part", 60, 0,
       [=](const Tensor& whole, const Tensor& rank) {
         const std::int64_t me = rank.shape().elements() - 1;
         return all_gather(part_of(whole, 30 * me, 30), whole);
       }},
      {"reduce_scatter_to_own_part", 60, 0, [=](const Tensor& whole, const Tensor& rank) {
         const std::int64_t me = rank.shape().elements() - 1;
         return reduce_scatter(whole, part_of(whole, 30 * me, 30), sum);
       }}};
}

class GpuCollectives : public OnGpus, public testing::WithParamInterface<std::tuple<Over, Case>> {
 protected:
  static Over fabric() { return std::get<0>(GetParam()); }
  static const Case& one() { return std::get<1>(GetParam()); }
  stand_in::Options options() const override { return options_for(fabric()); }

  /// The elements of `in` and `out` after the call, with tensors in these memories.
  static std::vector<std::vector<float>> outcome(World& world, Collectives& group, Memory in_memory,
                                                 Memory out_memory) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const Tensor in = tensor_of(world, in_memory, counted(one().in, 100.0F * (1.0F + rank)));
    // Cases without an output learn the rank by the length of it.
    const Tensor out = one().out != 0
                           ? tensor_of(world, out_memory, std::vector<float>(one().out, -1))
                           : tensor_of(world, {}, std::vector<float>(rank + 1));
    group.run(one().call(in, out)).or_throw();
    return {seen_by_application(world, in), seen_by_application(world, out)};
  }
};

TEST_P(GpuCollectives, GiveWhatTheyGiveOnHostMemory) {
  run_over(fabric(), [](World& world) {
    auto group = Collectives::open(world);
    const auto wanted = outcome(world, group, {}, {});
    EXPECT_EQ(group.staged_bytes(), 0U);
    EXPECT_EQ(outcome(world, group, Memory::gpu(0), Memory::gpu(0)), wanted);
    if (one().name == "all_reduce") {
      const bool by_gpus = fabric() == Over::shm || moves_by_nic(fabric());
      EXPECT_EQ(group.staged_bytes(), by_gpus ? 0U : 2 * 4 * 5000U);
    }
    EXPECT_EQ(outcome(world, group, Memory::gpu(), {}), wanted);
    EXPECT_EQ(outcome(world, group, {}, Memory::gpu()), wanted);
    // One rank alone has its tensors on a GPU.
    const Memory mine = world.rank() == 0 ? Memory::gpu(0) : Memory();
    EXPECT_EQ(outcome(world, group, mine, mine), wanted);
  });
}

/// Those by which the ways differ.
std::vector<Over> fabrics_of_calls() {
  std::vector<Over> fabrics = some_fabrics();
#if defined(WEFT_TEST_FAKE_NIC)
  if (stand_in::control() != nullptr) fabrics.push_back(Over::nics_with_dma_buf);
#endif
  return fabrics;
}

INSTANTIATE_TEST_SUITE_P(Over, GpuCollectives,
                         testing::Combine(testing::ValuesIn(fabrics_of_calls()),
                                          testing::ValuesIn(cases())),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

class GpuCalls : public OnGpus {};

TEST_F(GpuCalls, RefuseWhatTheyCantTake) {
  run_on(1, [&](World& world) {
    auto group = Collectives::open(world);
    const ReduceOp sum = Reduction::sum;
    const Tensor gpu = world.allocate(DType::f32, {8, 8}, Memory::gpu(0));
    EXPECT_TRUE(tells(thrown_by([&] { (void)group.plan(all_reduce(gpu.slice(1, 0, 4), sum)); }),
                      Code::bad_argument, {"GPU 0", "strides"}));
    EXPECT_TRUE(tells(group.run(all_reduce(gpu.slice(1, 0, 4), sum)), Code::bad_argument,
                      {"GPU 0", "strides"}));
    EXPECT_TRUE(tells(group.run(all_reduce(gpu.part(0, {40}), gpu.part(20, {40}), sum)),
                      Code::bad_argument, {"overlap"}));
    EXPECT_TRUE(group.run(all_reduce(gpu, sum)).ok());
  });
}

TEST_F(GpuCalls, EndInTimeWhereTheGpuFailsOrIsLate) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  control()->restart({.delay = std::chrono::milliseconds(40)});
  run_on(1, [&](World& world) {
    auto group = Collectives::open(world);
    const ReduceOp sum = Reduction::sum;
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    EXPECT_TRUE(tells(group.run(all_reduce(gpu, sum), Deadline::after(std::chrono::nanoseconds(1))),
                      Code::timeout, {"GPU 0 has not copied f32[100]"}));
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    EXPECT_TRUE(tells(group.run(all_reduce(gpu, sum)), Code::system,
                      {"all_reduce", "GPU 0", "CUDA_ERROR_UNKNOWN"}));
    EXPECT_TRUE(group.run(all_reduce(gpu, sum)).ok());
    EXPECT_EQ(elements_of(world, gpu), counted(100));
  });
}

}  // namespace
}  // namespace weft::tests
