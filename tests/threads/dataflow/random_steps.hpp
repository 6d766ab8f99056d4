// Random graphs in executors, beside the reference interpreter on one rank.
#pragma once

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/threads/dataflow/reference_kernels.hpp"
#include "tests/unit/dataflow/random_graph.hpp"
#include "weft/executor.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// Some steps of the random graph of a seed, and the bits of each tensor that they fetch.
class RandomSteps {
 public:
  static constexpr int kSteps = 4;

  explicit RandomSteps(std::uint64_t seed) : seed_(seed) {
    RandomGraph graph(seed);
    graph.place(1, false);
    expected_ = reference::interpret(partition(graph.graph(), {}), graph.run(kSteps, seed));
  }

  /// Runs this rank's share in an executor; threads and the memory that is sent follow from the
  /// seed. Throws Error, or std::runtime_error where a tensor is wrong.
  void run(World& world, EdgeWay way = EdgeWay::views) {
    RandomGraph random(seed_);
    random.place(world.size(), seed_ % 7 == 0);
    const reference::Run run = random.run(kSteps, seed_);
    Executor executor(world, random.graph(), reference_kernels(run.own, seed_ % 5 == 0),
                      {.name = std::to_string(seed_),
                       .threads = may_have_threads ? int(seed_ % 3) : 0,
                       .sent = static_cast<SentMemory>(seed_ / 3 % 4),
                       .way = way});
    const auto& nodes = executor.plan().parts[std::size_t(world.rank())].graph.nodes();
    for (const Node& node : nodes)
      if (node.definition->name == "weft.Variable")
        reference::write_into(run.variable(node), executor.variable(node.name));
    for (int step = 0; step < kSteps; ++step) {
      Tensors feeds;
      for (const Node& node : nodes) {
        if (node.definition->name != "weft.Feed") continue;
        const reference::Array value = run.feed(node, step);
        feeds[node.name] = executor.feed(node.name, Shape(value.sizes));
        reference::write_into(value, feeds[node.name]);
      }
      for (const auto& [name, tensor] : executor.run(feeds).value())
        check(name + "#" + std::to_string(step), tensor, executor.plan());
    }
  }

  /// All ranks have fetched all tensors.
  bool is_complete() const { return right_ == wanted(); }
  /// The tensors that were fetched so far.
  std::size_t right() const { return right_; }
  /// The tensors that all ranks together fetch.
  std::size_t wanted() const { return expected_.size(); }

  bool may_have_threads = true;

 private:
  void check(const std::string& name, const Tensor& tensor, const Plan& plan) {
    const auto& right = expected_.at(name);
    if (tensor.bytes() != right.size() * sizeof(double) ||
        (!right.empty() && std::memcmp(tensor.data(), right.data(), tensor.bytes()) != 0))
      throw std::runtime_error("WEFT_TEST_SEED=" + std::to_string(seed_) + ": " + name +
                               " is wrong\n" + plan.text());
    ++right_;
  }

  const std::uint64_t seed_;
  reference::Fetched expected_;
  std::atomic<std::size_t> right_{0};
};

}  // namespace weft::dataflow
