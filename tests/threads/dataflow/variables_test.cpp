// Memory of variables, values that are computed in it, and the number of the step.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/support/gpu_memory.hpp"
#include "tests/threads/dataflow/models.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;
using tests::settings;
using tests::tells;
using tests::thrown_by;

/// Kernels that note where they have written each node's output 0.
Kernels noting(std::map<std::string, const std::byte*>& written) {
  static std::mutex mutex;
  const Kernels inner = reference_kernels();
  Kernels all;
  for (const std::string& name : Definitions::standard().names())
    all.add(name, [&written, kernel = *inner.find(name)](KernelCall& call) {
      kernel(call);
      if (call.outputs() == 0) return;
      const std::lock_guard lock(mutex);
      written[call.node()] = call.output(0).data();
    });
  return all;
}

TEST(VariableMemory, IsWhereTheirValueIsComputedIfNoNodeReadsThem) {
  run_on(1, [](World& world) {
    Graph graph;
    graph.place_next({0});
    const TensorId x = graph.feed("x", DType::f32, {2, 3});
    const auto variable = [&](const char* name, const Shape& shape = {2, 3}) {
      return graph.variable(name, DType::f32, shape);
    };
    const auto scaled = [&](const char* name) {
      return graph.add("weft.Scale", {x}, {{"factor", 2.0}}, name);
    };
    const TensorId usual = graph.assign(variable("usual"), scaled("a"));
    graph.fetch(usual, "fetched");
    // Other readers of the value only read it.
    const TensorId shared = scaled("b");
    graph.assign(variable("first"), shared);
    graph.assign(variable("second"), shared);
    graph.fetch(graph.add("Relu", {shared}, {}, "r"), "relu");
    const TensorId alias = graph.add("Reshape", {scaled("c")}, {{"shape", Sizes{3, 2}}}, "alias");
    graph.assign(variable("reshaped", {3, 2}), alias);
    // This one is read.
    const TensorId read = variable("read");
    graph.assign(read, graph.add("Add", {read, x}, {}, "d"));
    const TensorId fetched = variable("old");
    graph.fetch(fetched, "old value");
    graph.assign(fetched, scaled("e"));
    graph.assign(variable("fed"), x);

    std::map<std::string, const std::byte*> written;
    Executor executor(world, graph, noting(written), {.threads = 2});
    for (int step = 1; step <= 3; ++step) {
      Tensors feeds{{"x", executor.feed("x")}};
      fill_at_random(feeds["x"], std::uint64_t(step));
      const float x0 = feeds["x"].as<float>()[0];
      const auto value = [&](const char* name) { return executor.variable(name).as<float>()[0]; };
      const float before = value("read");
      const float old = value("old");
      const Tensors results = executor.run(feeds).value();
      EXPECT_EQ(results.at("old value").as<float>()[0], old) << "the step before";
      EXPECT_EQ(results.at("fetched").as<float>()[0], 2 * x0);
      EXPECT_EQ(results.at("relu").as<float>()[0], std::max(2 * x0, 0.0F));
      for (const char* name : {"usual", "first", "second", "reshaped", "old"})
        EXPECT_EQ(value(name), 2 * x0) << name;
      EXPECT_EQ(value("fed"), x0);
      EXPECT_EQ(value("read"), before + x0);
    }
    const auto memory = [&](const char* name) { return executor.variable(name).data(); };
    EXPECT_EQ(written["a"], memory("usual"));
    EXPECT_EQ(written["b"], memory("first"));
    EXPECT_EQ(written["c"], memory("reshaped"));
    EXPECT_NE(written["d"], memory("read"));
    EXPECT_NE(written["e"], memory("old"));
  });
}

TEST(VariableMemory, MayBeGivenBetweenAnySteps) {
  for (const char* fabric : {"shm", "tcp"})
    run_on(2, settings().with(Setting::fabric, fabric), [](World& world) {
      Graph graph;
      graph.place_next({0});
      const TensorId sent = graph.variable("sent", DType::f32, {8});
      graph.variable("kept", DType::f32, {2});
      graph.place_next({1});
      graph.fetch(graph.add("weft.Scale", {sent}, {{"factor", 2.0}}), "doubled");
      Executor executor(world, graph, reference_kernels(), {.way = EdgeWay::slots});
      const Tensor first = world.rank() == 0 ? world.allocate(DType::f32, {8}) : Tensor();
      const Tensor second = world.rank() == 0 ? world.allocate(DType::f32, {8}) : Tensor();
      for (int step = 0; step < 4; ++step) {
        const Tensor& memory = step % 2 == 0 ? first : second;
        if (world.rank() == 0) {
          executor.bind("sent", memory);
          EXPECT_EQ(executor.variable("sent").data(), memory.data());
          std::ranges::fill(memory.as<float>(), float(step));
        }
        const Tensors fetched = executor.run().value();
        const auto doubled = fetched.find("doubled");
        ASSERT_EQ(doubled != fetched.end(), world.rank() == 1);
        if (world.rank() == 0) continue;
        EXPECT_EQ(doubled->second.as<float>()[7], float(2 * step));
      }
      EXPECT_EQ(tests::all_counters(world).bytes_copied, 0U);
      if (world.rank() == 0) {
        std::array<float, 8> own{};
        const auto refusal = [&](const char* name, const Tensor& memory) {
          return thrown_by([&] { executor.bind(name, memory); });
        };
        EXPECT_TRUE(tells(refusal("none", first), Code::bad_argument, {"no variable 'none'"}));
        EXPECT_TRUE(tells(refusal("kept", first), Code::mismatch, {"'kept'", "[2]"}));
        EXPECT_TRUE(tells(refusal("kept", Tensor::wrap(own.data(), DType::i32, {2})),
                          Code::mismatch, {"'kept'", "i32"}));
        EXPECT_TRUE(tells(refusal("kept", Tensor::wrap(nullptr, DType::f32, {2})),
                          Code::bad_argument, {"'kept'", "is missing, or not dense"}));
        EXPECT_TRUE(tells(refusal("kept", first.part(0, {4, 2}).slice(1, 0, 1).slice(0, 0, 2)),
                          Code::mismatch, {"'kept'"}));
        const tests::GpuMemory gpu;
        EXPECT_TRUE(tells(refusal("kept", gpu.tensor({2})), Code::bad_argument,
                          {"'kept'", "lies on a GPU"}));
        const std::array<std::int64_t, 1> strides{2};
        EXPECT_TRUE(tells(refusal("kept", Tensor::wrap(own.data(), DType::f32, {2}, strides)),
                          Code::bad_argument, {"is missing, or not dense"}));
        EXPECT_TRUE(tells(refusal("sent", Tensor::wrap(own.data(), DType::f32, {8})),
                          Code::bad_argument, {"'sent'", "without a copy", "World::allocate"}));
        executor.bind("kept", Tensor::wrap(own.data(), DType::f32, {2}));
      }
      Executor viewed(world, graph, reference_kernels(), {.name = "viewed"});
      if (world.rank() == 0 && viewed.plan().edges[0].kind == EdgeKind::viewed) {
        EXPECT_TRUE(tells(thrown_by([&] { viewed.bind("sent", first); }), Code::bad_argument,
                          {"'sent'", "a published slot's", "EdgeWay::slots"}));
      }
      world.leave().or_throw();
    });
}

TEST(StepNumbers, CountFromWhereATrainerGoesOn) {
  run_on(1, [](World& world) {
    Definitions all = Definitions::standard();
    all.add({.name = "test.Step", .outputs = {{"step"}}, .infer = [](const Inference&) {
               return std::vector{TensorType{DType::i64, {}}};
             }});
    Graph graph(all);
    graph.place_next({0});
    graph.fetch(graph.add("test.Step", {}), "step");
    Kernels kernels;
    kernels.add("test.Step", [](KernelCall& call) {
      call.output(0).as<std::int64_t>()[0] = std::int64_t(call.step());
    });
    Executor executor(world, graph, kernels);
    const auto step = [&] { return executor.run().value().at("step").as<std::int64_t>()[0]; };
    EXPECT_EQ(executor.step(), 0U);
    EXPECT_EQ(step(), 0);
    EXPECT_EQ(step(), 1);
    EXPECT_EQ(executor.step(), 2U);
    executor.resume(40);
    EXPECT_EQ(step(), 40);
    EXPECT_EQ(executor.step(), 41U);
    EXPECT_FALSE(executor.run({{"none", Tensor()}}).ok());
    EXPECT_EQ(executor.step(), 41U) << "a step that did not begin is none";
    EXPECT_EQ(executor.counters().steps, 3U) << "those that this executor has run";
  });
}

}  // namespace
}  // namespace weft::dataflow
