// Checkpoints that can't be written, and VariableCheckpoints that end early or late.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::run_on;
using tests::TempFolder;

constexpr std::uint64_t kUnwrittenSteps = 6;

/// The layer, trained by momentum, spread over two ranks.
Graph spread_layer() {
  Layer layer;
  apply_gradients(layer.graph, layer.loss, layer.variables, Optimizer::with_momentum(0.05F));
  return replicate(layer.graph, {.workers = {0, 1}, .servers = {1, 0}}).graph;
}

/// The losses of all steps by fetch; `before_step` is called by rank 0 before each.
std::map<std::string, std::string> train(const CheckpointOptions& options, const fs::path& log,
                                         const std::function<void(std::uint64_t)>& before_step) {
  std::map<std::string, std::string> losses;
  std::mutex mutex;
  tests::Meeting meeting(2);
  const Config config = tests::settings().with(Setting::log_file, log.string());
  run_on(2, config, [&](World& world) {
    Executor executor(world, spread_layer(), kernels());
    start(executor, world.rank());
    VariableCheckpoints saved(world, executor, options);
    for (std::uint64_t step = saved.restored(); step < kUnwrittenSteps; ++step) {
      meeting.wait();
      if (world.rank() == 0) before_step(step);
      meeting.wait();
      const auto fetched = executor.run(feeds(executor, world.rank(), step)).value();
      const Status status = saved.step_ended();
      EXPECT_TRUE(status.ok()) << status.text();
      const std::lock_guard lock(mutex);
      for (const auto& [name, loss] : fetched)
        losses[name + " of step " + std::to_string(step)] = bytes_of(loss);
    }
  });
  return losses;
}

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A file stands where the folder was, so that a rank that runs as root can't write there either.
TEST(VariableCheckpointsOfAJob, ThatCannotBeWrittenAreToldAndTheJobGoesOn) {
  const TempFolder folder;
  const auto nothing = [](std::uint64_t) {};
  const auto undisturbed = train({}, folder.path() / "undisturbed.log", nothing);
  ASSERT_EQ(undisturbed.size(), 2 * kUnwrittenSteps);
  const fs::path kept = folder.path() / "kept";
  const CheckpointOptions options{.folder = (folder.path() / "saved").string(), .every = 1};
  const fs::path log = folder.path() / "log";
  const auto losses = train(options, log, [&](std::uint64_t step) {
    // Steps 0 and 1 are saved before: a writer may still be at work on version 2.
    if (step == 2) {
      const fs::path version = fs::path(options.folder) / "graph/00000000000000000002";
      EXPECT_TRUE(tests::soon([&] { return fs::exists(version / "manifest.json"); }));
      fs::rename(options.folder, kept);
      std::ofstream(options.folder) << "in the way";
    }
  });
  EXPECT_EQ(losses, undisturbed) << "the training is not disturbed";
  const std::string told = text_of(log);
  for (const char* words : {"checkpoint 3 was not written", "checkpoint 6 was not written"})
    EXPECT_NE(told.find(words), told.npos) << words << " in " << told;
  EXPECT_EQ(told.find("checkpoint 2 was not written"), told.npos) << told;
  // A job that goes on restores what was written before.
  fs::remove(options.folder);
  fs::rename(kept, options.folder);
  std::vector<std::uint64_t> begun;
  const auto rest = train(options, folder.path() / "rest.log",
                          [&](std::uint64_t step) { begun.push_back(step); });
  ASSERT_FALSE(begun.empty());
  EXPECT_EQ(begun.front(), 2U);
  for (const auto& [name, loss] : rest) EXPECT_EQ(loss, undisturbed.at(name)) << name;
}

/// The ranks end at different times, some before the others have their last word.
TEST(VariableCheckpointsOfAJob, EndAtOnceAfterTheirStart) {
  const TempFolder folder;
  for (int round = 0; round < 5; ++round)
    for (const char* fabric : {"shm", "tcp"})
      run_on(4, tests::settings().with(Setting::fabric, fabric), [&](World& world) {
        Graph graph;
        for (int rank = 0; rank < 4; ++rank) {
          graph.place_next({rank});
          graph.variable("v" + std::to_string(rank), DType::f32, {8});
        }
        Executor executor(world, graph, kernels());
        const auto begin = std::chrono::steady_clock::now();
        {
          const VariableCheckpoints saved(
              world, executor,
              {.folder = folder.path().string(), .every = 1, .restore = round % 2 == 0});
          if (world.rank() == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
      });
}

}  // namespace
}  // namespace weft::pslib
