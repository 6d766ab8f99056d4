// Calls of a kernel: outputs whose size depends on values, and memory that it may not give.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <vector>

#include "tests/threads/dataflow/losses.hpp"

namespace weft::dataflow {
namespace {

using tests::run_on;
using tests::tells;

/// "my.Positive": the positive numbers of a list, as many as there are. "my.Pair": two outputs.
/// "my.Over": works on its input's memory.
Definitions own_definitions() {
  Definitions definitions = Definitions::standard();
  definitions.add({.name = "my.Positive",
                   .inputs = {{"X"}},
                   .outputs = {{"Y"}},
                   .infer = [](const Inference& in) {
                     return std::vector<TensorType>{{in.dtype(0), PartialShape{kAnySize}}};
                   }});
  const auto same = [](std::size_t outputs) {
    return [outputs](const Inference& in) { return std::vector(outputs, in.input(0)); };
  };
  definitions.add(
      {.name = "my.Pair", .inputs = {{"X"}}, .outputs = {{"A"}, {"B"}}, .infer = same(2)});
  definitions.add({.name = "my.Over",
                   .inputs = {{"X"}},
                   .outputs = {{"Y"}},
                   .infer = same(1),
                   .reuses = {{0, 0, Reuse::Kind::must}}});
  return definitions;
}

void relay_all(KernelCall& call) {
  for (std::size_t i = 0; i < call.outputs(); ++i)
    std::ranges::copy(call.input(0).as<float>(), call.output(i).as<float>().begin());
}

std::vector<float> positive(std::span<const float> all) {
  std::vector<float> found;
  std::ranges::copy_if(all, std::back_inserter(found), [](float one) { return one > 0; });
  return found;
}

/// Asks for memory of the found size.
void find_then_ask(KernelCall& call) {
  const auto found = positive(call.input(0).as<float>());
  const Tensor& out = call.output(0, DType::f32, {std::int64_t(found.size())});
  std::ranges::copy(found, out.as<float>().begin());
}

/// Gives a part of its own memory, of the found size.
void find_then_give(KernelCall& call) {
  const auto found = positive(call.input(0).as<float>());
  const Tensor whole = call.allocate(DType::f32, call.input(0).shape());
  std::ranges::copy(found, whole.as<float>().begin());
  call.give(0, whole.slice(0, 0, std::int64_t(found.size())));
}

/// Gives memory of the user's, which stays until the step ends.
class GivesOwn {
 public:
  void operator()(KernelCall& call) {
    *memory_ = positive(call.input(0).as<float>());
    memory_->reserve(1);  // an empty list has memory as well
    call.give(0, Tensor::wrap(memory_->data(), DType::f32, {std::int64_t(memory_->size())}));
  }

 private:
  std::shared_ptr<std::vector<float>> memory_ = std::make_shared<std::vector<float>>();
};

constexpr int kFoundSteps = 6;

/// Rank 0 finds other numbers of elements in each step, and rank 1 gets them.
void run_with(const Kernel& find, EdgeWay way, const char* fabric, int threads) {
  run_by(fabric)(2, [&](World& world) {
    Graph graph(own_definitions());
    graph.place_next({0});
    const TensorId found =
        graph.add("my.Positive", {graph.feed("x", DType::f32, {100})}, {}, "found");
    graph.place_next({1});
    graph.fetch(graph.add("weft.Scale", {found}, {{"factor", 2.0}}), "out");
    Kernels kernels = reference_kernels();
    kernels.add("my.Positive", find);
    Executor executor(world, graph, kernels, {.threads = threads, .way = way});
    EXPECT_EQ(executor.plan().edges.at(0).kind, EdgeKind::dynamic);
    for (int step = 0; step < kFoundSteps; ++step) {
      std::vector<float> values(100);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = step == 3 || i % std::size_t(step + 2) != 0 ? -1.0F : float(i);
      Tensors feeds;
      if (world.rank() == 0) {
        feeds["x"] = executor.feed("x");
        std::ranges::copy(values, feeds["x"].as<float>().begin());
      }
      const auto fetched = executor.run(feeds);
      ASSERT_TRUE(fetched.ok()) << fetched.status().text();
      if (world.rank() == 0) continue;
      std::vector<float> expected = positive(values);
      EXPECT_EQ(expected.empty(), step == 3) << "an empty tensor too";
      for (float& one : expected) one *= 2;
      EXPECT_TRUE(std::ranges::equal(fetched->at("out").as<float>(), expected)) << step;
    }
  });
}

TEST(KernelCalls, GiveOutputsWhoseSizeDependsOnValues) {
  for (const EdgeWay way : kWays)
    for (const char* fabric : {"shm", "tcp"}) {
      SCOPED_TRACE(std::string(fabric) + ", way " + std::to_string(int(way)));
      run_with(find_then_ask, way, fabric, 0);
      run_with(find_then_give, way, fabric, 2);
      run_with(GivesOwn(), way, fabric, 0);
    }
}

/// The status of a step on one rank, whose node "y" of this definition has this kernel.
Status step_of(const char* definition, const Kernel& kernel) {
  Status status;
  run_on(1, [&](World& world) {
    Graph graph(own_definitions());
    graph.place_next({0});
    // A tensor of the step, which "my.Over" may overwrite.
    const TensorId x = graph.add("Relu", {graph.feed("x", DType::f32, {8})});
    const TensorId y = graph.add(definition, {x}, {}, "y");
    graph.fetch(y, "out");
    Kernels kernels;
    kernels.add("Relu", relay_all);
    kernels.add(definition, kernel);
    Executor executor(world, graph, kernels);
    const Tensor fed = executor.feed("x");
    fill_at_random(fed, 1);
    status = executor.run({{"x", fed}}).status();
  });
  return status;
}

TEST(KernelCalls, RefuseAnOutputWhoseShapeDependsOnValuesWithoutTheShape) {
  EXPECT_TRUE(tells(step_of("my.Positive", [](KernelCall& call) { call.output(0); }),
                    Code::bad_argument,
                    {"output 0", "'y'", "depends on values", "output(i, dtype, shape)"}));
  EXPECT_TRUE(tells(step_of("my.Positive",
                            [](KernelCall& call) {
                              call.give(0, call.allocate(DType::f32, {2, 2}));
                            }),
                    Code::mismatch, {"'y'", "[2, 2]", "[?]"}))
      << "another number of dimensions";
}

TEST(KernelCalls, RefuseTheMemoryOfAnotherOutput) {
  EXPECT_TRUE(tells(step_of("my.Pair",
                            [](KernelCall& call) {
                              relay_all(call);
                              call.give(1, call.output(0));
                            }),
                    Code::bad_argument, {"output 1", "'y'", "in the memory of output 0"}));
  EXPECT_TRUE(tells(step_of("my.Pair",
                            [](KernelCall& call) {
                              const Tensor whole = call.allocate(DType::f32, {12});
                              call.give(0, whole.slice(0, 0, 8));
                              call.give(1, whole.slice(0, 4, 8));
                            }),
                    Code::bad_argument, {"output 1", "'y'", "in the memory of output 0"}))
      << "a part of it";
  const Status apart = step_of("my.Pair", [](KernelCall& call) {
    const Tensor whole = call.allocate(DType::f32, {16});
    call.give(0, whole.slice(0, 0, 8));
    call.give(1, whole.slice(0, 8, 8));
  });
  EXPECT_TRUE(apart.ok()) << "two parts of one allocation: " << apart.text();
}

TEST(KernelCalls, RefuseMemoryForAnOutputThatHasAnInputsByDefinition) {
  EXPECT_TRUE(tells(
      step_of("my.Over", [](KernelCall& call) { call.give(0, call.allocate(DType::f32, {8})); }),
      Code::bad_argument, {"'y'", "by its definition it has an input's memory"}));
  EXPECT_TRUE(step_of("my.Over", [](KernelCall& call) {
                EXPECT_EQ(call.output(0).data(), call.input(0).data());
              }).ok());
}

TEST(KernelCalls, ThatFindNoMemoryEndTheStepAsExhausted) {
  EXPECT_TRUE(tells(step_of("my.Pair", [](KernelCall&) { throw std::bad_alloc(); }),
                    Code::exhausted, {"'y'", "out of memory"}));
  EXPECT_TRUE(
      tells(step_of("my.Pair",
                    [](KernelCall& call) { call.allocate(DType::f32, {std::int64_t{1} << 55}); }),
            Code::exhausted, {"'y'"}));
}

}  // namespace
}  // namespace weft::dataflow
