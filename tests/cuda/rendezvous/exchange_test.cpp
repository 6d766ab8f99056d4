// Rendezvous from and to tensors on GPUs, over every fabric.
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

class GpuRendezvous : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuRendezvous, BringsTensorsFromAndToEachMemory) {
  run_over(GetParam(), [](World& world) {
    const int other = 1 - world.rank();
    const auto first = [](int rank, std::uint64_t step) {
      return static_cast<float>(1000 * rank) + static_cast<float>(step);
    };
    // Each rank says for itself where it receives.
    const Memory mine = world.rank() == 0 ? Memory() : Memory::gpu();
    const Memory where =
        mine.is_host() ? mine : world.allocate(DType::f32, {1}, Memory::gpu()).memory();
    Rendezvous exchange = Rendezvous::open(world, {.name = "steps", .memory = mine});
    std::uint64_t step = 0;
    std::uint64_t sent = 0;
    std::uint64_t taken = 0;
    for (const std::size_t elements : {std::size_t{10}, std::size_t{5000}})
      for (const Memory from : {Memory(), Memory::gpu(), Memory::gpu(1), Memory()}) {
        ++step;
        const Tensor tensor = tensor_of(world, from, counted(elements, first(world.rank(), step)));
        exchange.send(other, "t", step, tensor).or_throw();
        if (from.is_gpu()) {
          EXPECT_FALSE(exchange.lent(other, "t", step)) << "its copy is";
          sent += 4 * elements;
        }
        const Received received = exchange.recv(other, "t", step).value();
        taken += 4 * elements;
        EXPECT_EQ(received.tensor.memory(), where);
        EXPECT_EQ(seen_by_application(world, received.tensor),
                  counted(elements, first(other, step)));
        exchange.serve().or_throw();
      }
    const EdgeReport out = edge_of(world, "rendezvous.steps", Role::puts);
    EXPECT_EQ(out.counters.staged_bytes, sent);
    EXPECT_EQ(out.counters.device_copies, 4U);
    EXPECT_EQ(out.way, "staged");
    const EdgeReport in = edge_of(world, "rendezvous.steps", Role::receives);
    EXPECT_EQ(in.counters.staged_bytes, mine.is_gpu() ? taken : 0U);
    EXPECT_EQ(in.counters.device_copies, mine.is_gpu() ? 8U : 0U);
    EXPECT_EQ(in.way, mine.is_gpu() ? "staged" : "direct");
    meet(world);
  });
}

TEST_P(GpuRendezvous, ReceivesManyAtOnce) {
  run_over(GetParam(), [](World& world) {
    // More messages than may be under way without their answers.
    constexpr std::uint64_t kMany = 80;
    const int other = 1 - world.rank();
    Rendezvous exchange =
        Rendezvous::open(world, {.name = "many", .batch_requests = false, .memory = Memory::gpu()});
    std::vector<KeyStep> wanted;
    for (std::uint64_t step = 1; step <= kMany; ++step) {
      exchange.send(other, "t", step, tensor_of(world, {}, counted(20, static_cast<float>(step))))
          .or_throw();
      wanted.push_back({"t", step});
    }
    const auto received = exchange.recv(other, wanted);
    for (std::uint64_t step = 1; step <= kMany; ++step) {
      ASSERT_TRUE(received[step - 1].ok()) << received[step - 1].status().text();
      const Tensor& tensor = received[step - 1]->tensor;
      EXPECT_TRUE(tensor.memory().is_gpu());
      EXPECT_EQ(elements_of(world, tensor), counted(20, static_cast<float>(step)));
    }
    exchange.serve().or_throw();
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuRendezvous, testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

/// A value that is a number.
class Number final : public Codec {
 public:
  explicit Number(float given) : value(given) {}
  std::uint16_t id() const override { return 7; }
  std::size_t size() const override { return sizeof value; }
  void encode(std::span<std::byte> to) const override { std::memcpy(to.data(), &value, size()); }
  void decode(std::span<const std::byte> from) override {
    std::memcpy(&value, from.data(), size());
  }

  float value;
};

class GpuReceivers : public OnGpus {};

TEST_F(GpuReceivers, MayBeManyThreads) {
  run_on(2, [](World& world) {
    const int other = 1 - world.rank();
    Rendezvous exchange = Rendezvous::open(world, {.memory = Memory::gpu()});
    std::vector<std::thread> threads;
    for (const std::string key : {"a", "b", "c"})
      threads.emplace_back([&, key] {
        const Tensor gpu = tensor_of(world, Memory::gpu(), counted(500, 9));
        for (std::uint64_t step = 1; step <= 20; ++step) {
          exchange.send(other, key, step, gpu).or_throw();
          EXPECT_EQ(elements_of(world, exchange.recv(other, key, step).value().tensor),
                    counted(500, 9));
        }
      });
    for (std::thread& thread : threads) thread.join();
    exchange.serve().or_throw();
    EXPECT_EQ(edge_of(world, "rendezvous.default", Role::receives).counters.staged_bytes,
              3 * 20 * 2000U);
    meet(world);
  });
}

TEST_F(GpuReceivers, LeaveInHostMemoryWhatHasNoPlaceOnAGpu) {
  run_on(1, [](World& world) {
    Rendezvous exchange = Rendezvous::open(world, {.memory = Memory::gpu(0)});
    exchange.send_dead(0, "dead", 1).or_throw();
    EXPECT_TRUE(exchange.recv(0, "dead", 1).value().is_dead);
    exchange.send_encoded(0, "number", 1, Number(3.5)).or_throw();
    const Received encoded = exchange.recv(0, "number", 1).value();
    EXPECT_TRUE(encoded.tensor.memory().is_host());
    Number number(0);
    encoded.decode(number).or_throw();
    EXPECT_EQ(number.value, 3.5);
    exchange.send(0, "empty", 1, world.allocate(DType::f32, {0}, Memory::gpu(0))).or_throw();
    EXPECT_EQ(exchange.recv(0, "empty", 1).value().tensor.shape(), Shape{0});
    exchange.send_error(0, "bad", 1, Code::mismatch, "no such tensor").or_throw();
    EXPECT_TRUE(tells(exchange.recv(0, "bad", 1).status(), Code::mismatch, {"no such tensor"}));
    EXPECT_EQ(edge_of(world, "rendezvous.default", Role::receives).counters.staged_bytes, 0U);
  });
}

TEST_F(GpuReceivers, CostNothingBesideTheirCopiesInTheSteadyState) {
  if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's counts";
  run_on(1, [&](World& world) {
    Rendezvous exchange = Rendezvous::open(world, {.memory = Memory::gpu(0)});
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(1000));
    std::uint64_t step = 0;
    expect_steady(*control(), 2, [&] {
      exchange.send(0, "t", ++step, gpu).or_throw();
      EXPECT_EQ(exchange.recv(0, "t", step).value().tensor.memory(), Memory::gpu(0));
    });
  });
}

TEST_F(GpuReceivers, RefuseWhatTheyCantTake) {
  run_on(1, [](World& world) {
    EXPECT_TRUE(tells(
        thrown_by([&] { (void)Rendezvous::open(world, {.name = "a", .memory = Memory::gpu(9)}); }),
        Code::bad_argument, {"no GPU 9"}));
    Rendezvous exchange = Rendezvous::open(world);
    const Tensor gpu = world.allocate(DType::f32, {8, 8}, Memory::gpu(0));
    EXPECT_TRUE(tells(exchange.send(0, "t", 1, gpu.slice(1, 0, 4)), Code::bad_argument,
                      {"\"t\"", "GPU 0", "strides"}));
    const Tensor nowhere = Tensor::wrap(gpu.data() + (1 << 30), DType::f32, {8}, Memory::gpu(0));
    EXPECT_TRUE(tells(exchange.send(0, "t", 1, nowhere), Code::bad_argument, {"GPU 0"}));
    EXPECT_TRUE(exchange.send(0, "t", 1, gpu).ok()) << "nothing was offered before";
    EXPECT_TRUE(exchange.recv(0, "t", 1).ok());
  });
}

}  // namespace
}  // namespace weft::tests
