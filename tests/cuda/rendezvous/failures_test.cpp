// Copies of exchanged tensors are under way while the deadline passes, the request is cancelled, an
// end, the path or the GPU goes.
#include "tests/cuda/slots/fabrics.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

/// Copies take tens of milliseconds.
class ExchangesUnderWay : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "needs the stand-in's clock";
  }
  stand_in::Options options() const override { return {.delay = milliseconds(40)}; }

  /// A rank that sends to itself and receives on GPU 0. Destroys the exchange last.
  void run(const std::function<void(World&, Rendezvous&)>& body) {
    run_on(1, [&](World& world) {
      Rendezvous exchange = Rendezvous::open(world, {.name = "self", .memory = Memory::gpu(0)});
      body(world, exchange);
    });
  }
  /// Receives with short deadlines until the tensor is on its way to the GPU.
  static void begin_to_receive(Rendezvous& exchange, int from) {
    for (int i = 0; i < 1000; ++i) {
      const auto received =
          exchange.recv(from, "t", 1, Deadline::after(std::chrono::microseconds(50)));
      ASSERT_EQ(received.code(), Code::timeout) << received.status().text();
      if (received.status().text().find("has arrived") == std::string::npos) continue;
      EXPECT_TRUE(tells(received.status(), Code::timeout,
                        {"\"t\", step 1", "it has arrived", "GPU 0 has not copied it"}));
      return;
    }
    ADD_FAILURE() << "it has not arrived";
  }
  static void send(World& world, Rendezvous& exchange, Memory from = {}) {
    exchange.send(0, "t", 1, tensor_of(world, from, counted(100))).or_throw();
  }
  static EdgeReport received(World& world) {
    return edge_of(world, "rendezvous.self", Role::receives);
  }
};

TEST_F(ExchangesUnderWay, OutliveTheDeadlineOfAReceive) {
  run([](World& world, Rendezvous& exchange) {
    send(world, exchange);
    begin_to_receive(exchange, 0);
    EXPECT_EQ(received(world).counters.staged_bytes, 0U);
    EXPECT_EQ(elements_of(world, exchange.recv(0, "t", 1).value().tensor), counted(100));
    EXPECT_EQ(received(world).counters.staged_bytes, 400U);
    EXPECT_EQ(received(world).counters.transfers, 1U);
    EXPECT_TRUE(tells(exchange.recv(0, "t", 1).status(), Code::bad_argument, {"received before"}));
  });
}

TEST_F(ExchangesUnderWay, AreBegunByThoseWhoOnlyAsk) {
  run([](World& world, Rendezvous& exchange) {
    send(world, exchange);
    EXPECT_TRUE(soon([&] { return exchange.ready(0, "t", 1); }));
    const auto received = exchange.recv(0, "t", 1, Deadline::at({}));
    ASSERT_TRUE(received.ok()) << received.status().text();
    EXPECT_EQ(elements_of(world, received->tensor), counted(100));
  });
}

TEST_F(ExchangesUnderWay, LeaveNothingOfferedAfterTheDeadlineOfASend) {
  run([](World& world, Rendezvous& exchange) {
    const Tensor gpu = tensor_of(world, Memory::gpu(1), counted(100));
    EXPECT_TRUE(tells(exchange.send(0, "t", 1, gpu, Deadline::after(std::chrono::nanoseconds(1))),
                      Code::timeout, {"\"t\", step 1", "GPU 1 has not copied f32[100]"}));
    exchange.send(0, "t", 1, gpu).or_throw();
    EXPECT_EQ(elements_of(world, exchange.recv(0, "t", 1).value().tensor), counted(100));
    EXPECT_EQ(edge_of(world, "rendezvous.self", Role::puts).counters.staged_bytes, 400U);
  });
}

TEST_F(ExchangesUnderWay, EndWithTheDriversRefusals) {
  run([&](World& world, Rendezvous& exchange) {
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    std::uint64_t step = 0;
    for (const char* function :
         {"cuCtxPushCurrent_v2", "cuMemcpyAsync", "cuEventRecord", "cuEventQuery"}) {
      ++step;
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(exchange.send(0, "t", step, gpu), Code::system,
                        {"\"t\"", "GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      exchange.send(0, "t", step, gpu).or_throw();
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_TRUE(tells(exchange.recv(0, "t", step).status(), Code::system,
                        {"\"t\"", "GPU 0", "CUDA_ERROR_UNKNOWN"}))
          << function;
      EXPECT_EQ(elements_of(world, exchange.recv(0, "t", step).value().tensor), counted(100))
          << function << ": the tensor had arrived";
    }
  });
}

TEST_F(ExchangesUnderWay, EndWithAGpuThatIsLost) {
  run([&](World& world, Rendezvous& exchange) {
    const Tensor gpu = tensor_of(world, Memory::gpu(0), counted(100));
    send(world, exchange);
    begin_to_receive(exchange, 0);
    control()->lose(0, DriverStatus::ecc_uncorrectable);
    EXPECT_TRUE(tells(exchange.recv(0, "t", 1).status(), Code::system,
                      {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    EXPECT_TRUE(tells(exchange.send(0, "t", 2, gpu), Code::system,
                      {"GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE"}));
    control()->lose(0, DriverStatus::success);
    EXPECT_EQ(elements_of(world, exchange.recv(0, "t", 1).value().tensor), counted(100));
  });
}

TEST_F(ExchangesUnderWay, AreLetGoOfByCancelAndByTheEnd) {
  for (const bool cancels : {true, false}) {
    run_on(1, [&](World& world) {
      {
        Rendezvous exchange = Rendezvous::open(world, {.name = "self", .memory = Memory::gpu(0)});
        send(world, exchange);
        begin_to_receive(exchange, 0);
        if (cancels) {
          exchange.cancel(0, "t", 1).or_throw();
          EXPECT_EQ(exchange.recv(0, "t", 1).code(), Code::bad_argument);
        }
      }
      // Their memory is free once a later copy has looked after them.
      const Tensor host = world.allocate(DType::f32, {8});
      EXPECT_TRUE(soon([&] {
        world.copy(host, host);
        return world.report().arenas[4].used_bytes == 0;
      }));
    });
  }
}

TEST_F(ExchangesUnderWay, GoOnWhileTheRankLeaves) {
  run_on(1, [&](World& world) {
    std::optional<Rendezvous> exchange =
        Rendezvous::open(world, {.name = "self", .memory = Memory::gpu(0)});
    send(world, *exchange);
    begin_to_receive(*exchange, 0);
    exchange.reset();
    EXPECT_TRUE(world.leave().ok());
  });
  // A copy of another world looks after it.
  run_on(1, [&](World& world) {
    const Tensor host = world.allocate(DType::f32, {8});
    EXPECT_TRUE(soon([&] {
      world.copy(host, host);
      return control()->leftovers().empty();
    }));
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(ExchangesUnderWay, OutliveTheirSender) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    control()->restart({.pace = stand_in::Pace::lazy, .seed = seed, .idle = milliseconds(0)});
    SimJob job(2, {.seed = seed}, simulated_settings().with(Setting::arena_chunk, "2m"));
    const SimOutcome outcome = job.run([&](World& world) {
      const Memory mine = world.rank() == 0 ? Memory::gpu(0) : Memory();
      Rendezvous exchange = Rendezvous::open(world, {.memory = mine});
      if (world.rank() == 1) {
        // A rank that is killed gives nothing back, so that one uses no GPU.
        const bool dies = seed % 2 == 0;
        send(world, exchange, dies ? Memory() : Memory::gpu(1));
        exchange.serve().or_throw();
        job.sleep(world, milliseconds(500));
        if (dies) job.kill(world);
        job.disconnect(0, 1);
        EXPECT_FALSE(exchange.recv(0, "t", 1).ok());
        return;
      }
      EXPECT_FALSE(exchange.ready(1, "t", 1));
      job.sleep(world, std::chrono::seconds(1));
      EXPECT_EQ(elements_of(world, exchange.recv(1, "t", 1).value().tensor), counted(100))
          << "seed " << seed << ": the tensor had arrived";
      EXPECT_FALSE(exchange.recv(1, "t", 2).ok());
    });
    EXPECT_EQ(outcome.failures, std::vector<std::string>{}) << outcome.text;
  }
}
#endif

}  // namespace
}  // namespace weft::tests
