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

TEST_P(GpuMessages, AreReceivedWithoutWaiting) {
  run_over(GetParam(), [](World& world) {
    Messages messages(world);
    const int other = 1 - world.rank();
    std::uint64_t taken = 0;
    // Empty, within the ring, and offered in it; each posted before and after it has come.
    std::uint64_t tag = 0;
    for (const std::size_t elements : {std::size_t{0}, std::size_t{10}, std::size_t{5000}})
      for (const bool first : {true, false}) {
        ++tag;
        const Tensor mine = tensor_of(world, {}, counted(elements, static_cast<float>(tag)));
        const Tensor into = tensor_of(world, Memory::gpu(), std::vector<float>(6000, -1));
        MessageRequest receiving;
        MessageRequest sending;
        if (first) receiving = messages.irecv(other, Tag(tag), into);
        sending = messages.isend(other, tag, mine);
        if (!first) {
          messages.probe(other, Tag(tag)).value();
          receiving = messages.irecv(kAnySource, Tag(tag), into);
        }
        const MessageInfo info = receiving.wait().value();
        EXPECT_EQ(info.bytes, 4 * elements);
        EXPECT_EQ(info.source, other);
        auto wanted = counted(elements, static_cast<float>(tag));
        wanted.resize(6000, -1);
        EXPECT_EQ(seen_by_application(world, into), wanted);
        EXPECT_TRUE(sending.wait().ok());
        taken += 4 * elements;
      }
    const EdgeReport edge = edge_of(world, "messages", Role::receives);
    EXPECT_EQ(edge.counters.staged_bytes, taken);
    EXPECT_EQ(edge.counters.device_copies, 4U);
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

TEST_F(GpuMessageErrors, EndASendrecvAtItsDeadline) {
  control()->restart({.pace = stand_in::Pace::lazy, .idle = milliseconds(0)});
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = world.allocate(DType::f32, {100}, Memory::gpu(0));
    control()->stop_clock(true);
    const Tensor into = world.allocate(DType::f32, {100});
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(tells(
        messages.sendrecv(0, 1, gpu, 0, Tag(1), into, Deadline::after(milliseconds(50))).status(),
        Code::timeout, {"sendrecv", "GPU 0 has not copied"}));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_FALSE(messages.iprobe(0, Tag(1)).has_value()) << "nothing was sent";
    control()->stop_clock(false);
    control()->step(10);
  });
}

TEST_F(GpuMessageErrors, EndASendrecvAtOnceWhoseSendFails) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = world.allocate(DType::f32, {8, 8}, Memory::gpu(0));
    const Tensor into = world.allocate(DType::f32, {100});
    const auto failed = [&](const Tensor& tensor) {
      return messages
          .sendrecv(0, 1, tensor, 0, Tag(1), into, Deadline::after(std::chrono::hours(1)))
          .status();
    };
    EXPECT_TRUE(tells(failed(gpu.slice(1, 0, 4)), Code::bad_argument, {"sendrecv", "strides"}));
    control()->refuse("cuMemcpyAsync", 1, DriverStatus::unknown);
    EXPECT_TRUE(tells(failed(gpu), Code::system, {"sendrecv", "GPU 0", "CUDA_ERROR_UNKNOWN"}));
    EXPECT_TRUE(messages.isend(0, 1, into).wait(Deadline::after(milliseconds(1))).status().code() ==
                Code::ok);
    EXPECT_TRUE(messages.recv(0, Tag(1), into).ok()) << "no receive was left behind";
  });
}

TEST_F(GpuMessageErrors, LeaveAReceiveUnderWayAtItsDeadline) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), std::vector<float>(100, -1));
    const Tensor host = tensor_of(world, {}, counted(100, 5));
    messages.send(0, 1, host).or_throw();
    MessageRequest request = messages.irecv(0, Tag(1), gpu);
    EXPECT_FALSE(request.test());
    EXPECT_TRUE(tells(request.wait(Deadline::after(std::chrono::nanoseconds(1))).status(),
                      Code::timeout, {"has come (tag 1)", "GPU 0 has not copied it"}));
    EXPECT_TRUE(tells(request.cancel(), Code::bad_argument, {"being copied to GPU 0"}));
    EXPECT_EQ(messages.wait_any({&request, 1}).value(), 0U);
    EXPECT_EQ(request.wait().value().bytes, 400U);
    EXPECT_EQ(elements_of(world, gpu), counted(100, 5));
  });
}

TEST_F(GpuMessageErrors, EndReceivesWithTheGpu) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), std::vector<float>(100, -1));
    const Tensor host = tensor_of(world, {}, counted(100, 5));
    for (const char* function : {"cuMemcpyAsync", "cuEventQuery"}) {
      MessageRequest request = messages.irecv(0, Tag(1), gpu);
      control()->refuse(function, 1, DriverStatus::unknown);
      messages.send(0, 1, host).or_throw();
      EXPECT_TRUE(
          tells(request.wait().status(), Code::system, {"recv", "GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
    }
    MessageRequest lost = messages.irecv(0, Tag(1), gpu);
    messages.send(0, 1, host).or_throw();
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(
        tells(lost.wait().status(), Code::system, {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    control()->lose(0, DriverStatus::success);
    MessageRequest request = messages.irecv(0, Tag(1), gpu);
    EXPECT_TRUE(request.cancel().code() == Code::cancelled);
    EXPECT_FALSE(messages.iprobe(0, Tag(1)).has_value()) << "what failed was taken";
    messages.send(0, 1, host).or_throw();
    EXPECT_TRUE(messages.recv(0, Tag(1), gpu).ok());
    EXPECT_EQ(elements_of(world, gpu), counted(100, 5));
  });
}

TEST_F(GpuMessageErrors, KeepTheMemoryOfAReceiveThatIsGone) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    {
      const Tensor gpu = world.allocate(DType::f32, {100}, Memory::gpu(0));
      messages.send(0, 1, tensor_of(world, {}, counted(100, 5))).or_throw();
      MessageRequest request = messages.irecv(0, Tag(1), gpu);
      EXPECT_FALSE(request.test());
    }
    EXPECT_NE(world.report().arenas[4].used_bytes, 0U);
    EXPECT_TRUE(soon([&] {
      (void)messages.iprobe(0, Tag(2));
      return world.report().arenas[4].used_bytes == 0;
    }));
  });
}

TEST_F(GpuMessageErrors, AreNotTheCostOfTheSteadyState) {
  control()->restart({});
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(5000));
    expect_steady(*control(), 2, [&] {
      MessageRequest receiving = messages.irecv(0, Tag(1), gpu);
      MessageRequest sending = messages.isend(0, 1, gpu);
      receiving.wait().value();
      sending.wait().value();
    });
  });
}

TEST_F(GpuMessageErrors, RefuseWhatTheyCantTake) {
  run_on(1, [&](World& world) {
    Messages messages(world);
    const Tensor gpu = world.allocate(DType::f32, {8, 8}, Memory::gpu(0));
    EXPECT_TRUE(
        tells(messages.send(0, 1, gpu.slice(1, 0, 4)), Code::bad_argument, {"GPU 0", "strides"}));
    EXPECT_TRUE(tells(messages.send(5, 1, gpu), Code::bad_argument, {"no rank 5"}));
    EXPECT_TRUE(tells(messages.irecv(0, Tag(1), gpu.slice(1, 0, 4)).wait().status(),
                      Code::bad_argument, {"GPU 0", "strides"}));
    MessageRequest wide = messages.irecv(0, Tag(1), gpu.part(0, {4}));
    messages.send(0, 1, world.allocate(DType::f32, {5})).or_throw();
    EXPECT_TRUE(tells(wide.wait().status(), Code::mismatch, {"20 bytes", "16 bytes"}));
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(GpuMessageErrors, OutliveTheirSender) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    // In simulated time only what is asked for moves on.
    control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(0)});
    SimJob job(2, {.seed = seed}, simulated_settings().with(Setting::arena_chunk, "2m"));
    const SimOutcome outcome = job.run([&](World& world) {
      Messages messages(world);
      if (world.rank() == 1) {
        messages.send(0, 1, tensor_of(world, {}, counted(100, 5))).or_throw();
        job.sleep(world, milliseconds(500));
        if (seed % 2 == 0) job.kill(world);
        return job.disconnect(0, 1);
      }
      const Tensor gpu = tensor_of(world, Memory::gpu(0), std::vector<float>(100, -1));
      MessageRequest request = messages.irecv(1, Tag(1), gpu);
      job.sleep(world, std::chrono::seconds(1));
      EXPECT_EQ(request.wait().value().bytes, 400U);
      EXPECT_EQ(elements_of(world, gpu), counted(100, 5));
      EXPECT_FALSE(messages.irecv(1, Tag(1), gpu).wait().ok());
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
