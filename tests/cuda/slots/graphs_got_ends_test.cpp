// Gets in captured graphs that are late, fail, or outlive their ends.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/slots/graphs_got.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

TEST_F(GraphsGot, ADeadlineLetsTheStreamGoOnAndTheNextCallSaysWhy) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader, Deadline::after(milliseconds(200)));
    std::this_thread::sleep_for(milliseconds(300));  // counts from when the stream has come
    publish_got(slot, 1);
    EXPECT_EQ(getter.replay(), 0U);
    for (int turn = 0; turn < 3; ++turn) getter.graph->launch();
    getter.own.synchronize();
    EXPECT_EQ(getter.outcomes.back(), number_of(Code::timeout));
    EXPECT_EQ(getter.outcomes.size(), 4U);
    publish_got(slot, 2);
    expect_told(reader.view().status(), Code::timeout, {"get", "nothing newer", "\"news\""});
    EXPECT_EQ(getter.replay(), 0U) << "later replays go on";
    EXPECT_EQ(getter.seen.back(), counted(kInGraph, 2));
    // So does a get behind a stream, and one in a capture.
    for (const bool captures : {false, true}) {
      getter.replay();
      OwnStream other(world, 0, kInGraph, 1);
      std::optional<OwnGraph> graph;
      if (captures) graph.emplace(other);
      expect_told(reader.get(getter.into, other.get()), Code::timeout, {"nothing newer"});
      if (captures) graph->end();
    }
  });
}

TEST_F(GraphsGot, ThatFailAreToldByTheNextCall) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader);
    for (const char* function : {"cuMemcpyAsync", "cuEventRecord"}) {
      publish_got(slot, 1);
      control()->refuse(function, 1, DriverStatus::unknown);
      EXPECT_EQ(getter.replay(), number_of(Code::system));
      expect_told(reader.view().status(), Code::system, {"get", "GPU 0", "news"});
      EXPECT_EQ(getter.replay(), 0U) << "the version was not seen";
    }
  });
}

TEST_F(GraphsGot, EndWithTheSlotAndWithTheReader) {
  for (const bool owner_goes : {true, false})
    run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
      GraphGetter getter(world, reader);
      publish_got(slot, 1);
      EXPECT_EQ(getter.replay(), 0U);
      for (int turn = 0; turn < 3; ++turn) getter.graph->launch();
      std::this_thread::sleep_for(milliseconds(20));
      if (owner_goes)
        slot = PublishedSlot();
      else
        reader = PublishedReader();
      getter.own.synchronize();
      EXPECT_EQ(getter.replay(), number_of(Code::closed));
      EXPECT_EQ(getter.outcomes.size(), 5U);
      for (std::size_t i = 1; i < getter.outcomes.size(); ++i)
        EXPECT_EQ(getter.outcomes[i], number_of(Code::closed)) << i;
      // The memory that the graph writes is not used by others, as long as it is there.
      EXPECT_EQ(getter.seen.back(), counted(kInGraph, 1));
      if (owner_goes) {
        EXPECT_EQ(reader.view().status().code(), Code::closed);
      }
    });
}

TEST_F(GraphsGot, ReplaysGoOnAfterTheWorld) {
  for (const bool ends_outlive_it : {false, true}) {
    World world = World::join();  // of one rank
    std::optional<PublishedSlot> slot = world.expose_published(got_edition());
    std::optional<PublishedReader> reader = world.attach_published(0, "news");
    GraphGetter getter(world, *reader);
    publish_got(*slot, 1);
    EXPECT_EQ(getter.replay(), 0U);
    getter.graph->launch();
    if (!ends_outlive_it) {
      reader.reset();
      slot.reset();
    }
    world = World();
    for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(getter.replay(), number_of(Code::closed));
    EXPECT_EQ(getter.seen.back(), counted(kInGraph, 1));
    reader.reset();
    slot.reset();
    EXPECT_EQ(getter.replay(), number_of(Code::closed));
  }
}

TEST_F(GraphsGot, APeerThatLeavesLetsStreamsGoOn) {
  for (const Over fabric : {Over::shm, Over::tcp}) {
    std::atomic<bool> captured{false};
    run_over(fabric, [&](World& world) {
      if (world.rank() == 0) {
        PublishedSlot slot = world.expose_published(got_edition());
        meet(world);
        while (!captured) std::this_thread::yield();
        world.leave().or_throw();
        return;
      }
      PublishedReader reader = world.attach_published(0, got_edition());
      meet(world);
      GraphGetter getter(world, reader);
      getter.graph->launch();
      captured = true;
      getter.own.synchronize();
      const std::uint32_t outcome = getter.outcomes.back();
      EXPECT_TRUE(outcome == number_of(Code::peer_left) || outcome == number_of(Code::closed))
          << outcome;
      EXPECT_NE(getter.replay(), 0U);
      EXPECT_FALSE(reader.view().ok());
    });
  }
}

TEST_F(GraphsGot, TwoExecutablesAtOnceAreAnError) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports the race that overlapping replays are";
#endif
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    GraphGetter getter(world, reader);
    OwnStream other(world, 0, kInGraph, 1);
    const GraphExec second = getter.graph->instantiate();
    getter.graph->launch();
    std::this_thread::sleep_for(milliseconds(20));
    getter.graph->launch(second, other.handle());
    getter.own.synchronize();
    other.synchronize();
    EXPECT_EQ(getter.outcomes.back(), number_of(Code::bad_argument));
    publish_got(slot, 1);
    expect_told(reader.view().status(), Code::bad_argument, {"get", "two executables"});
    EXPECT_EQ(getter.replay(), 0U);
    EXPECT_EQ(getter.seen.back(), counted(kInGraph, 1));
    EXPECT_OK(driver().destroy_graph_exec(second));
  });
}

TEST_F(GraphsGot, AreRefusedWhereACaptureCantHaveThem) {
  run([&](World& world, PublishedSlot& slot, PublishedReader& reader) {
    const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    const Tensor host = world.allocate(DType::f32, {kInGraph});
    OwnStream own(world, 0, kInGraph, 1);
    OwnStream other(world, 1, kInGraph, 1);
    {
      OwnGraph elsewhere(other);
      expect_told(reader.get(into, other.get()), Code::bad_argument, {"GPU 1", "GPU 0"});
      elsewhere.end();
    }
    OwnGraph graph(own);
    expect_told(reader.get(host, own.get()), Code::bad_argument, {"captures a", "host memory"});
    EXPECT_EQ(reader.get(world.allocate(DType::f32, {3}, Memory::gpu(0)), own.get()).code(),
              Code::mismatch);
    ASSERT_EQ(::setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
    expect_told(reader.get(into, own.get()), Code::bad_argument, {"CUDA_LAUNCH_BLOCKING"});
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    // One that is attached in the midst of a capture can be a part of it.
    PublishedReader late = world.attach_published(0, "news");
    EXPECT_OK_STATUS(late.get(into, own.get()));
    own.read(0, into);
    graph.end();
    publish_got(slot, 4);
    graph.launch();
    own.synchronize();
    EXPECT_EQ(own.elements(0), counted(kInGraph, 4));
  });
}

TEST_F(GraphsGot, AreRefusedWhereTheDriverPinsNothing) {
  run_over(Over::tcp, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(got_edition());
      meet(world, "refused");
      return;
    }
    PublishedReader reader = world.attach_published(0, got_edition());
    const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    control()->refuse("cuMemHostRegister_v2", 3, DriverStatus::not_supported);  // behind the words
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own, CaptureMode::relaxed);
    expect_told(reader.get(into, own.get()), Code::bad_argument, {"pins no memory"});
    graph.end();
    meet(world, "refused");
  });
}

#if defined(WEFT_TEST_SIMULATION)
TEST_F(GraphsGot, AreRefusedInSimulatedJobs) {
  ASSERT_EQ(control()->restart(options_for(Over::simulation)), std::vector<std::string>{});
  run_over(Over::simulation, [&](World& world) {
    if (world.rank() == 0) {
      PublishedSlot slot = world.expose_published(got_edition());
      meet(world);
      meet(world, "refused");
      return;
    }
    PublishedReader reader = world.attach_published(0, got_edition());
    meet(world);
    const Tensor into = world.allocate(DType::f32, {kInGraph}, Memory::gpu(0));
    OwnStream own(world, 0, kInGraph, 1);
    OwnGraph graph(own, CaptureMode::relaxed);
    expect_told(reader.get(into, own.get()), Code::bad_argument, {"simulated"});
    graph.end();
    meet(world, "refused");
  });
}
#endif

}  // namespace
}  // namespace weft::tests
