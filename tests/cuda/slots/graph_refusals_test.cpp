// Calls that captures of graphs refuse.
#include <cstdlib>
#include <vector>

#include "tests/cuda/slots/graphs.hpp"

namespace weft::tests {
namespace {

using GraphRefusals = OnStandInStreams;

TEST_F(GraphRefusals, NameWhatACaptureCantDo) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    SlotSpec free_shape = graph_spec(Memory::gpu(0));
    free_shape.name = "free";
    free_shape.placement = Placement::dynamic;
    SlotSpec on_host = graph_spec({});
    on_host.name = "host";
    Slot slot = world.expose(graph_spec(Memory::gpu(0), 1));
    Slot dynamic = world.expose(free_shape);
    Slot host = world.expose(on_host);
    RemoteSlot remote = world.attach(0, graph_spec({}, 1));
    RemoteSlot to_dynamic = world.attach(0, free_shape);
    const Tensor tensor = tensor_of(world, Memory::gpu(0), counted(kInGraph));
    std::vector<float> own_memory(kInGraph);
    remote.put(tensor).wait().or_throw();
    Arrival eager = slot.wait().value();
    Request pending = remote.put(tensor);  // without a credit
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 1, kInGraph, 1);
    OwnStream third(world, 0, kInGraph, 1);
    {
      OwnGraph elsewhere(other);
      const Status status = remote.put(tensor, other.get()).wait();
      EXPECT_TRUE(tells(status, Code::bad_argument, {"GPU 1", "GPU 0"})) << status.text();
      EXPECT_EQ(slot.wait_on(other.get()).code(), Code::bad_argument);
      elsewhere.end();
    }
    OwnGraph graph(own);
    const auto refuses = [&](const Status& status, const char* words) {
      EXPECT_TRUE(tells(status, Code::bad_argument, {words})) << status.text();
    };
    refuses(dynamic.wait_on(own.get()).status(), "dynamic");
    refuses(to_dynamic.put(tensor, own.get()).wait(), "dynamic");
    refuses(host.wait_on(own.get()).status(), "lies in host memory");
    refuses(pending.wait_on(own.get()), "captures a graph");
    refuses(eager.release(own.get()), "captures a graph");
    EXPECT_TRUE(eager);
    const Tensor outside = Tensor::wrap(own_memory.data(), DType::f32, {kInGraph});
    refuses(remote.put(outside, own.get()).wait(), "no GPU can copy");
    EXPECT_EQ(remote.put(world.allocate(DType::f32, {3}), own.get()).wait().code(), Code::mismatch);
    ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
    refuses(slot.wait_on(own.get()).status(), "CUDA_LAUNCH_BLOCKING");
    refuses(remote.put(tensor, own.get()).wait(), "CUDA_LAUNCH_BLOCKING");
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    Request request = remote.put(tensor, own.get());
    Arrival arrival = slot.wait_on(own.get()).value();
    EXPECT_TRUE(request.test());
    refuses(request.wait(), "part of a captured graph");
    refuses(request.cancel(), "part of a captured graph");
    refuses(request.wait_on(third.get()), "not of that capture");
    refuses(arrival.release(third.get()), "not of that capture");
    EXPECT_OK_STATUS(request.wait_on(own.get()));
    graph.end();
    {
      OwnGraph next(own);
      refuses(request.wait_on(own.get()), "not of that capture");
      refuses(arrival.release(own.get()), "not of that capture");
      EXPECT_TRUE(arrival);
      next.end();
    }
    // All of that has moved nothing, and spoilt nothing.
    eager.release();
    EXPECT_OK_STATUS(pending.wait());
    slot.wait().value();
    graph.launch();
    own.synchronize();
    graph.launch();  // it did not release what came: the replay does
    own.synchronize();
    EXPECT_EQ(edge_of(world, "in", Role::receives).counters.transfers, 4U);
    remote = RemoteSlot();
    EXPECT_EQ(request.wait_on(own.get()).code(), Code::closed);
  });
}

TEST_F(GraphRefusals, TellOfACaptureThatHasFailed) {
  run_on(1, settings().with(Setting::log, "off"), [&](World& world) {
    Slot slot = world.expose(graph_spec(Memory::gpu(0)));
    OwnStream own(world, 0, kInGraph, 1);
    EXPECT_OK(driver().begin_capture(own.handle(), CaptureMode::relaxed));
    EXPECT_EQ(driver().synchronize_stream(own.handle()), DriverStatus::capture_unsupported);
    const Status status = slot.wait_on(own.get()).status();
    EXPECT_TRUE(tells(status, Code::bad_argument, {"has failed before"})) << status.text();
    Graph graph = nullptr;
    EXPECT_EQ(driver().end_capture(own.handle(), &graph), DriverStatus::capture_invalidated);
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(GraphRefusals, AreThoseOfSimulatedJobs) {
  ASSERT_EQ(control()->restart(options_for(Over::simulation)), std::vector<std::string>{});
  run_over(Over::simulation, [&](World& world) {
    if (world.rank() == 0) {
      Slot slot = world.expose(graph_spec(Memory::gpu(0)));
      OwnStream own(world, 0, kInGraph, 1);
      OwnGraph graph(own, CaptureMode::relaxed);
      const Status status = slot.wait_on(own.get()).status();
      EXPECT_TRUE(tells(status, Code::bad_argument, {"simulated"})) << status.text();
      graph.end();
      meet(world);
    } else {
      meet(world);
    }
  });
}
#endif

}  // namespace
}  // namespace weft::tests
