// State that kernels keep between calls: primitives and scratch memory, for several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/dataflow/execute/tensor_memory.hpp"
#include "tests/unit/operators/aligned_allocations.hpp"
#include "tests/unit/operators/compared.hpp"
#include "tests/unit/operators/one_node.hpp"

extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace weft::dataflow {
namespace {

/// Nodes with blocked layouts, scratch memory and functions between primitives.
std::vector<OneNode> some_nodes() {
  std::mt19937_64 random(7);
  const auto tensor = [&](const Shape& shape) { return random_tensor(shape, random); };
  std::vector<OneNode> nodes;
  for (const std::int64_t channels : {3, 16})
    nodes.emplace_back("Conv",
                       std::vector{tensor({2, channels, 9, 9}), tensor({16, channels, 3, 3})},
                       Attributes{{"pads", Sizes{1, 1, 1, 1}}});
  nodes.emplace_back("LSTM", std::vector{tensor({4, 3, 5}), tensor({2, 24, 5}), tensor({2, 24, 6})},
                     Attributes{{"hidden_size", 6}, {"direction", std::string("bidirectional")}});
  nodes.emplace_back("weft.MaxPoolGrad",
                     std::vector{tensor({1, 8, 4, 4}), tensor({1, 8, 8, 8}), tensor({1, 8, 4, 4})},
                     Attributes{{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}});
  nodes.emplace_back(
      "weft.BatchNormalizationGrad",
      std::vector{tensor({4, 8, 5}), tensor({4, 8, 5}), tensor({8}), tensor({8}), tensor({8})},
      Attributes{{"training_mode", 1}});
  nodes.emplace_back("MatMul", std::vector{tensor({17, 30}), tensor({30, 9})});
  nodes.emplace_back("Tanh", std::vector{tensor({300})});
  return nodes;
}

/// Nodes whose kernels are loops.
std::vector<OneNode> nodes_in_loops() {
  std::mt19937_64 random(8);
  const Tensor x = random_tensor({30, 20}, random);
  const Tensor row = random_tensor({20}, random);
  const Tensor indices = plain_tensor(DType::i64, {3});
  std::fill_n(indices.as<std::int64_t>().begin(), 3, 7);
  std::vector<OneNode> nodes;
  const Attributes first{{"axes", Sizes{0}}};
  nodes.emplace_back("ReduceMax", std::vector{x}, first);
  nodes.emplace_back("ReduceMean", std::vector{x}, first);
  nodes.emplace_back("weft.SumTo", std::vector{x, row});
  nodes.emplace_back("weft.ReduceMeanGrad", std::vector{random_tensor({1, 20}, random), x}, first);
  nodes.emplace_back("Add", std::vector{random_tensor({30, 1}, random), row});
  nodes.emplace_back("Gather", std::vector{x, indices});
  nodes.emplace_back("weft.GatherGrad", std::vector{random_tensor({3, 20}, random), indices, x});
  nodes.emplace_back("Concat", std::vector{x, x}, Attributes{{"axis", 1}});
  nodes.emplace_back("Dropout", std::vector{x});
  return nodes;
}

std::string bytes_of(const std::vector<Tensor>& tensors) {
  std::string bytes;
  for (const Tensor& tensor : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
  return bytes;
}

TEST(OperatorState, GivesTheSameBitsInAllThreadsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20;
  const std::vector<OneNode> nodes = some_nodes();
  std::vector<std::string> expected;
  for (const OneNode& one : nodes)
    expected.push_back(bytes_of(outputs_of(one.kernel(operators()), one.node(), one.inputs())));
  const Kernels kernels = operators();
  std::atomic<int> differing{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds * int(nodes.size()); ++round) {
        const std::size_t i = std::size_t(round + thread / 2) % nodes.size();
        const auto outputs =
            outputs_of(nodes[i].kernel(kernels), nodes[i].node(), nodes[i].inputs());
        if (bytes_of(outputs) != expected[i]) ++differing;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differing, 0);
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(OperatorThreads, AreTheCallersAlone) {
  std::mt19937_64 random(1);
  const OneNode one(
      "Conv", {random_tensor({4, 32, 32, 32}, random), random_tensor({32, 32, 3, 3}, random)});
  const std::ptrdiff_t before = threads_of_this_process();
  const int limit = omp_get_max_threads();
  omp_set_num_threads(3);
  const Kernels kernels = operators();
  outputs_of(one.kernel(kernels), one.node(), one.inputs());
  EXPECT_EQ(threads_of_this_process(), before);
  EXPECT_EQ(omp_get_max_threads(), 3) << "the caller's own loops are not limited";
  omp_set_num_threads(limit);
}

TEST(OperatorState, IsMadeInTheFirstCall) {
  const Kernels kernels = operators();
  for (const OneNode& one : some_nodes()) {
    SCOPED_TRACE(one.node().definition->name);
    KernelCall call(one.node(), one.inputs(), [&](std::size_t, DType dtype, const Shape& shape) {
      return plain_tensor(dtype, shape);
    });
    const auto cost = [&] {
      const std::uint64_t before = tests::other_allocations();
      one.kernel(kernels)(call);
      return tests::other_allocations() - before;
    };
    const std::uint64_t first = cost();
    const std::uint64_t aligned = tests::aligned_allocations();
    const std::uint64_t second = cost();
    EXPECT_LE(second, first);
    for (int again = 0; again < 5; ++again)
      EXPECT_EQ(cost(), second) << "oneDNN's own, which execution alone needs";
    EXPECT_EQ(tests::aligned_allocations(), aligned) << "scratch memory is kept";
    EXPECT_LT(second * 2, first);
  }
}

TEST(OperatorState, IsAllThatLoopsAllocate) {
  const Kernels kernels = operators();
  for (const OneNode& one : nodes_in_loops()) {
    KernelCall call(one.node(), one.inputs(), [&](std::size_t, DType dtype, const Shape& shape) {
      return plain_tensor(dtype, shape);
    });
    one.kernel(kernels)(call);
    const std::uint64_t before = tests::other_allocations() + tests::aligned_allocations();
    one.kernel(kernels)(call);
    EXPECT_EQ(tests::other_allocations() + tests::aligned_allocations(), before)
        << one.node().definition->name;
  }
}

TEST(OperatorState, IsOfTheLastShapesAlone) {
  const Kernels kernels = operators();
  const auto cost = [&](const OneNode& one) {
    const std::uint64_t before = tests::other_allocations();
    outputs_of(one.kernel(kernels), one.node(), one.inputs());
    return tests::other_allocations() - before;
  };
  const auto of_size = [](std::int64_t size) {
    return OneNode("Tanh", {plain_tensor(DType::f32, {size})});
  };
  const OneNode first = of_size(1);
  std::memset(first.inputs()[0].data(), 0, 4);
  cost(first);
  const std::uint64_t kept = cost(first);
  for (std::int64_t size = 2; size <= 256; ++size) {
    const OneNode other = of_size(size);
    std::memset(other.inputs()[0].data(), 0, other.inputs()[0].bytes());
    cost(other);
  }
  EXPECT_EQ(cost(first), kept) << "256 shapes are kept";
  for (std::int64_t size = 257; size <= 600; ++size) {
    const OneNode other = of_size(size);
    std::memset(other.inputs()[0].data(), 0, other.inputs()[0].bytes());
    cost(other);
  }
  EXPECT_GT(cost(first), kept) << "and no more";
}

TEST(OperatorSet, LetsAUsersOwnKernelsComeFirst) {
  std::mt19937_64 random(1);
  const OneNode one("Relu", {random_tensor({4}, random)});
  int calls = 0;
  Kernels own;
  own.add("Relu", [&](KernelCall& call) {
    ++calls;
    std::memset(call.output(0).data(), 0, call.output(0).bytes());
  });
  Kernels all = operators(own);
  outputs_of(one.kernel(all), one.node(), one.inputs());
  EXPECT_EQ(calls, 1);
  EXPECT_NE(all.find("Tanh"), nullptr);
  all.add("my.Own", [](KernelCall&) {});
  EXPECT_NE(all.find("my.Own"), nullptr);
}

}  // namespace
}  // namespace weft::dataflow
