// A job that goes on from a checkpoint of its variables has the bits of an undisturbed one.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::run_on;
using tests::TempFolder;

/// A trained layer and a counter in f64; as two replicas, which are spread over `ranks` ranks.
Graph trained(int ranks) {
  Layer layer;
  apply_gradients(layer.graph, layer.loss, layer.variables, Optimizer::adam(0.02F));
  const TensorId count = layer.graph.variable("count", DType::f64, {2, 1});
  const TensorId one = layer.graph.variable("one", DType::f64, {2, 1});
  layer.graph.assign(count, layer.graph.add("Add", {count, one}), "counting");
  std::vector<int> servers;
  for (int rank = ranks - 1; rank >= 0; --rank) servers.push_back(rank);
  Graph graph = replicate(layer.graph, {.workers = {0, 1}, .servers = servers}).graph;
  for (dataflow::NodeId i = 0; i < dataflow::NodeId(graph.size()); ++i)
    if (graph.node(i).placement.rank >= ranks) graph.place(i, {0});
  return graph;
}

struct Outcome {
  std::uint64_t restored = 0;
  std::map<std::string, std::string> losses{};  ///< by fetch and step
};

Outcome train_to(std::uint64_t last, int ranks, const CheckpointOptions& options) {
  Outcome outcome;
  std::mutex mutex;
  run_on(ranks, [&](World& world) {
    Executor executor(world, trained(ranks), kernels());
    start(executor, world.rank());
    VariableCheckpoints saved(world, executor, options, "nets/layer");
    {
      const std::lock_guard lock(mutex);
      outcome.restored = saved.restored();
    }
    EXPECT_EQ(executor.step(), saved.restored());
    while (executor.step() < last) {
      const std::uint64_t step = executor.step();
      const auto fetched = executor.run(feeds(executor, world.rank(), step)).value();
      saved.step_ended().or_throw();
      const std::lock_guard lock(mutex);
      for (const auto& [name, loss] : fetched)
        outcome.losses[name + " of step " + std::to_string(step)] = bytes_of(loss);
    }
    world.leave().or_throw();
  });
  return outcome;
}

TEST(VariableCheckpointsOfAJob, GoOnBitForBitOnAnyNumberOfRanks) {
  const TempFolder folder;
  const CheckpointOptions options{.folder = folder.path().string(), .every = 2};
  const Outcome undisturbed = train_to(12, 2, {});
  EXPECT_EQ(undisturbed.restored, 0U);
  ASSERT_EQ(undisturbed.losses.size(), 24U);
  std::uint64_t restored = 0;
  // Jobs end between checkpoints; the steps after the last one are made again.
  for (const auto& [last, ranks] : {std::pair{5U, 2}, {8U, 4}, {9U, 1}, {12U, 3}}) {
    const Outcome part = train_to(last, ranks, options);
    EXPECT_EQ(part.restored, restored);
    EXPECT_EQ(part.losses.size(), 2 * (last - restored));
    for (const auto& [name, loss] : part.losses)
      EXPECT_EQ(loss, undisturbed.losses.at(name)) << name << ", " << ranks << " ranks";
    restored = last - last % 2;
  }
}

TEST(VariableCheckpointsOfAJob, HaveAFileForEachRankThatHoldsVariables) {
  const TempFolder folder;
  train_to(2, 4, {.folder = folder.path().string(), .every = 1, .keep = 1});
  const fs::path versions = folder.path() / "nets" / "layer";
  EXPECT_FALSE(fs::exists(versions / "00000000000000000001")) << "one checkpoint is kept";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(versions / "00000000000000000002"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "manifest.json", "shard-0000-of-0004.safetensors", "shard-0001-of-0004.safetensors",
                "shard-0002-of-0004.safetensors", "shard-0003-of-0004.safetensors"}));
}

TEST(VariableCheckpointsOfAJob, AreLoadedInPartByAGraphThatEvaluates) {
  const TempFolder folder;
  const CheckpointOptions options{.folder = folder.path().string(), .every = 3};
  const Outcome trained = train_to(7, 2, options);
  run_on(1, [&](World& world) {
    Layer layer;
    for (dataflow::NodeId i = 0; i < dataflow::NodeId(layer.graph.size()); ++i)
      layer.graph.place(i, {0});
    Executor executor(world, layer.graph, kernels());
    for (const std::uint64_t version : {3U, 6U}) {
      EXPECT_EQ(load_variables(world, executor, folder.path(), "nets/layer", version), version);
      executor.resume(version);
      dataflow::Tensors x{{"x", executor.feed("x")}};
      // The values of worker 0's feed "x@0" in that step.
      dataflow::fill_at_random(x["x"], std::uint64_t('0') * 1000 + version);
      EXPECT_EQ(bytes_of(executor.run(x).value().at("loss")),
                trained.losses.at("loss@0 of step " + std::to_string(version)));
    }
    EXPECT_EQ(load_variables(world, executor, folder.path(), "nets/layer"), 6U);
  });
}

TEST(VariableCheckpointsOfAJob, AreNotMadeUnlessAsked) {
  const TempFolder folder;
  EXPECT_EQ(train_to(3, 2, {.folder = folder.path().string()}).restored, 0U);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  train_to(3, 2, {.folder = folder.path().string(), .every = 1});
  const CheckpointOptions anew{.folder = folder.path().string(), .every = 1, .restore = false};
  EXPECT_EQ(train_to(1, 2, anew).restored, 0U);
  EXPECT_TRUE(fs::exists(folder.path() / "nets/layer/00000000000000000003.refused"))
      << "files of two jobs never mix";
}

}  // namespace
}  // namespace weft::pslib
