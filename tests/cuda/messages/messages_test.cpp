// Messages of tensors on GPUs, over every fabric.
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

class GpuMessages : public OnGpus, public testing::WithParamInterface<Over> {
 protected:
  stand_in::Options options() const override { return options_for(GetParam()); }
};

TEST_P(GpuMessages, BringTheirBytesFromAndToEachMemory) {
  run_over(GetParam(), [](World& world) {
    Messages messages(world);
    const int other = 1 - world.rank();
    std::uint64_t sent_bytes = 0;
    std::uint64_t taken_bytes = 0;
    // Within the ring, and offered in it.
    for (const std::size_t elements : {std::size_t{0}, std::size_t{10}, std::size_t{5000}})
      for (const Memory from : {Memory(), Memory::gpu()})
        for (const Memory to : {Memory(), Memory::gpu(0)}) {
          const auto rank = static_cast<float>(world.rank());
          const Tensor mine = tensor_of(world, from, counted(elements, 10 * rank));
          const Tensor into = tensor_of(world, to, std::vector<float>(6000, -1));
          const auto info = messages.sendrecv(other, 7, mine, other, Tag(7), into).value();
          EXPECT_EQ(info.bytes, 4 * elements);
          auto wanted = counted(elements, 10 * (1 - rank));
          wanted.resize(6000, -1);
          EXPECT_EQ(seen_by_application(world, into), wanted);
          if (from.is_gpu()) sent_bytes += 4 * elements;
          if (to.is_gpu()) taken_bytes += 4 * elements;
        }
    EXPECT_EQ(edge_of(world, "messages", Role::puts).counters.staged_bytes, sent_bytes);
    EXPECT_EQ(edge_of(world, "messages", Role::receives).counters.staged_bytes, taken_bytes);
    EXPECT_EQ(edge_of(world, "messages", Role::receives).way, "staged");
    meet(world);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuMessages, testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return name_of(info.param); });

class GpuMessageErrors : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }
};

TEST_F(GpuMessageErrors, EndInTimeWhereTheGpuFailsOrIsLate) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    const Tensor host = tensor_of(world, {}, counted(100, 5));
    const Deadline at_once = Deadline::after(std::chrono::nanoseconds(1));
    EXPECT_TRUE(tells(messages.send(0, 1, gpu, at_once), Code::timeout, {"GPU 0 has not copied"}));
    EXPECT_FALSE(messages.iprobe(0, Tag(1)).has_value()) << "nothing was sent";
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    EXPECT_TRUE(tells(messages.send(0, 1, gpu), Code::system, {"GPU 0", "CUDA_ERROR_UNKNOWN"}));
    auto first = messages.isend(0, 1, host);
    EXPECT_TRUE(tells(messages.recv(0, Tag(1), gpu, Deadline::after(milliseconds(1))).status(),
                      Code::timeout, {"GPU 0 has not copied"}));
    EXPECT_TRUE(first.wait().ok());
    auto second = messages.isend(0, 1, host);
    EXPECT_TRUE(messages.recv(0, Tag(1), gpu).ok());
    EXPECT_EQ(elements_of(world, gpu), counted(100, 5));
    EXPECT_TRUE(second.wait().ok());
  });
}

TEST_F(GpuMessageErrors, RefuseWhatTheyCantTake) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = world.allocate(DType::f32, {8, 8}, Memory::gpu(0));
    EXPECT_TRUE(
        tells(messages.send(0, 1, gpu.slice(1, 0, 4)), Code::bad_argument, {"GPU 0", "strides"}));
    EXPECT_TRUE(tells(messages.send(5, 1, gpu), Code::bad_argument, {"no rank 5"}));
    EXPECT_TRUE(tells(messages.irecv(0, Tag(1), gpu).wait().status(), Code::bad_argument,
                      {"GPU 0", "host memory"}));
  });
}

}  // namespace
}  // namespace weft::tests
