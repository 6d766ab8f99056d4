// A table continues from its checkpoint as if the job had never ended, on any number of servers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/threads/pslib/training.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
using pslib::Optimizer;
using pslib::TableOptions;

constexpr int kWorkers = 2;

/// The number of bytes that this process has read from files.
std::uint64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  file >> name >> bytes;
  return bytes;
}

struct Outcome {
  std::uint64_t first = 0;  ///< version after initialize()
  Floats parameters{};
};

/// Trains up to `version`. The last `servers` ranks only serve; 0: the workers serve too.
Outcome train_to(std::uint64_t version, int servers, const TableOptions& options) {
  const Regression model;
  Outcome outcome;
  run_on(kWorkers + servers, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = servers, .split_bytes = 64});
    auto table = server.table("model", Regression::specs(), options);
    if (!server.works()) {
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    } else {
      if (world.rank() == 0) fill_parameters(table, 0);
      table.initialize().or_throw();
      if (world.rank() == 0) outcome.first = table.version();
      while (table.version() < version) {
        model.gradient(table, world.rank(), kWorkers);
        table.push_pull().or_throw();
      }
      if (world.rank() == 0) outcome.parameters = parameters(table);
    }
    world.leave().or_throw();
  });
  return outcome;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TableOptions saved(const Optimizer& rule, const fs::path& folder) {
  TableOptions options(rule);
  options.checkpoint = {.folder = folder.string(), .every = 4};
  options.schedule = {.kind = pslib::Schedule::Kind::cosine, .warmup = 3, .period = 20};
  options.clip_norm = 1.0F;
  return options;
}

TEST(TableCheckpoints, GoOnBitForBitOnAnyNumberOfServers) {
  for (const auto& rule : {Optimizer::sgd(0.1F), Optimizer::adam(0.02F)}) {
    const TempFolder folder;
    TableOptions options = saved(rule, folder.path());
    TableOptions unsaved = options;
    unsaved.checkpoint = {};
    const Floats undisturbed = train_to(18, 3, unsaved).parameters;
    EXPECT_EQ(train_to(6, 4, options).first, 0U);
    EXPECT_EQ(train_to(9, 2, options).first, 4U);
    EXPECT_EQ(train_to(13, 0, options).first, 8U);
    const Outcome last = train_to(18, 3, options);
    EXPECT_EQ(last.first, 12U);
    EXPECT_TRUE(same_bits(last.parameters, undisturbed));
  }
}

// With one worker the order of pushes is fixed, so that equal runs have equal bits.
TEST(TableCheckpoints, AreMadeOfTablesOutOfStepToo) {
  const TempFolder folder;
  const auto train = [&](std::uint64_t version, int servers, int replicas, bool saves) {
    TableOptions options(Optimizer::adam(0.02F));
    options.consistency = pslib::Consistency::async();
    if (saves) options.checkpoint = {.folder = folder.path().string(), .every = 4};
    const Regression model;
    Outcome outcome;
    run_on(1 + servers, [&](World& world) {
      pslib::ParameterServer server(
          world, {.dedicated_servers = servers, .replicas = replicas, .split_bytes = 64});
      auto table = server.table("model", Regression::specs(), options);
      if (!server.works()) {
        pslib::Table* const tables[] = {&table};
        server.serve(tables).or_throw();
      } else {
        fill_parameters(table, 0);
        table.initialize().or_throw();
        outcome.first = table.version();
        while (table.version() < version) {
          model.gradient(table, 0, 1);
          table.push_pull().or_throw();
        }
        outcome.parameters = parameters(table);
      }
      world.leave().or_throw();
    });
    return outcome;
  };
  const Floats undisturbed = train(14, 2, 1, false).parameters;
  EXPECT_EQ(train(6, 3, 1, true).first, 0U);
  EXPECT_EQ(train(9, 2, 2, true).first, 4U);
  const Outcome last = train(14, 1, 1, true);
  EXPECT_EQ(last.first, 8U);
  EXPECT_TRUE(same_bits(last.parameters, undisturbed));
}

TEST(TableCheckpoints, KeepTheMasterValuesOfSixteenBitParameters) {
  const TempFolder folder;
  TableOptions options(Optimizer::sgd(1.0F / 1024));
  options.wire = DType::bf16;
  options.checkpoint = {.folder = folder.path().string(), .every = 1};
  for (std::uint64_t run = 0; run < 4; ++run)
    run_on(1, [&](World& world) {
      pslib::ParameterServer server(world);
      auto table = server.table("model", {{"t", Shape{20}}}, options);
      table.initialize().or_throw();
      const std::uint16_t one = 0x3f80;
      for (std::size_t i = 0; i < 20; ++i) std::memcpy(table.gradient("t").data() + 2 * i, &one, 2);
      table.push_pull().or_throw();
      EXPECT_EQ(table.version(), run + 1);
      world.leave().or_throw();
    });
  std::ifstream file(
      folder.path() / "model" / "00000000000000000004" / "shard-0000-of-0001.safetensors",
      std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(sizeof(float)), std::ios::end);
  float last = 0;
  file.read(reinterpret_cast<char*>(&last), sizeof last);
  EXPECT_EQ(last, -4.0F / 1024);
}

TEST(TableCheckpoints, PassOverADamagedOne) {
  const TempFolder folder;
  const TableOptions options = saved(Optimizer::adam(0.02F), folder.path());
  EXPECT_EQ(train_to(9, 2, options).first, 0U);
  fs::resize_file(
      folder.path() / "model" / "00000000000000000008" / "shard-0001-of-0002.safetensors", 100);
  EXPECT_EQ(train_to(9, 2, options).first, 4U);
  EXPECT_EQ(train_to(9, 2, options).first, 8U) << "it was written anew";
  TableOptions anew = options;
  anew.checkpoint.restore = false;
  EXPECT_EQ(train_to(4, 2, anew).first, 0U);
  EXPECT_EQ(train_to(4, 2, options).first, 4U) << "what was there before is set aside";
}

TEST(TableCheckpoints, AreRefusedToAnotherTable) {
  const TempFolder folder;
  const TableOptions options = saved(Optimizer::adam(0.02F), folder.path());
  (void)train_to(5, 1, options);
  const auto refusal = [&](const std::vector<pslib::TensorSpec>& specs, const Optimizer& rule) {
    std::string text;
    run_on(1, [&](World& world) {
      pslib::ParameterServer server(world);
      const auto detail =
          thrown_by([&] { (void)server.table("model", specs, saved(rule, folder.path())); });
      EXPECT_EQ(detail.code, Code::mismatch) << detail.text();
      text = detail.text();
    });
    return text;
  };
  EXPECT_TRUE(contains(refusal({{"weight", Shape{7, 19}}}, Optimizer::adam(0.02F)), "\"bias\""));
  EXPECT_TRUE(contains(refusal({{"weight", Shape{7, 19}}, {"bias", Shape{8}}}, Optimizer::adam(1)),
                       "\"bias\" [7], the table tensor \"bias\" [8]"));
  EXPECT_TRUE(contains(refusal(Regression::specs(), Optimizer::sgd(0.1F)), "adam with 2 states"));
}

// Checks that the ranks share the reading, and that damage that one of them finds counts for all.
TEST(TableCheckpoints, AreVerifiedByAllRanksTogether) {
  const TempFolder folder;
  constexpr int kRanks = 8;
  constexpr std::int64_t kElements = 3 << 20;  // 12 MiB
  TableOptions options(Optimizer::sgd(1.0F));
  options.checkpoint = {.folder = folder.path().string(), .every = 1};
  const auto run = [&](std::uint64_t version) {
    std::atomic<std::uint64_t> first = 0;
    run_on(kRanks, [&](World& world) {
      pslib::ParameterServer server(world, {.servers = {0, 1}});
      auto table = server.table("model", {{"t", Shape{kElements}}}, options);
      table.initialize().or_throw();
      first = table.version();
      while (table.version() < version) table.push_pull().or_throw();
      world.leave().or_throw();
    });
    return first.load();
  };
  EXPECT_EQ(run(2), 0U);
  const std::uint64_t before = bytes_read();
  EXPECT_EQ(run(2), 2U);
  const std::uint64_t read = bytes_read() - before;
  // A rank reads its part to verify, its own shard (including blocks that it holds in part) and
  // headers.
  EXPECT_LT(read, 4 * kElements * sizeof(float));
  std::fstream file(
      folder.path() / "model" / "00000000000000000002" / "shard-0001-of-0002.safetensors",
      std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-100, std::ios::end);
  file.put('x');
  file.close();
  EXPECT_EQ(run(2), 1U) << "one rank of eight has seen it";
}

TEST(TableCheckpoints, AreRefusedOnEveryRankWhereTheirFolderIsNone) {
  const TempFolder folder;
  folder.write("file", "no folder");
  std::filesystem::create_directory_symlink("loop", folder.path() / "loop");
  std::filesystem::create_directories(folder.path() / "linked");
  std::filesystem::create_directory_symlink("/tmp", folder.path() / "linked" / "model");
  for (const char* name : {"file", "file/below", "loop", "linked"})
    for (const bool restores : {true, false}) {
      TableOptions options(Optimizer::sgd(1.0F));
      options.checkpoint = {
          .folder = (folder.path() / name).string(), .every = 1, .restore = restores};
      std::atomic<int> refused = 0;
      const auto begin = std::chrono::steady_clock::now();
      run_on(3, [&](World& world) {
        pslib::ParameterServer server(world);
        const auto detail =
            thrown_by([&] { (void)server.table("model", Regression::specs(), options); });
        EXPECT_TRUE(tells(detail, Code::system, {name}));
        ++refused;
      });
      EXPECT_EQ(refused, 3) << name;
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << name;
    }
}

}  // namespace
}  // namespace weft::tests
