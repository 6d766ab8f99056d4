// Checkpoints of variables that are another graph's, or damaged.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/ranks.hpp"
#include "tests/threads/variables/models.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::run_on;
using tests::tells;
using tests::TempFolder;
using tests::thrown_by;

struct Variable {
  std::string name;
  DType dtype = DType::f32;
  Shape shape{};
};

const std::vector<Variable>& usual() {
  static const std::vector<Variable> all{{"a", DType::f32, {2000}}, {"b", DType::i64, {2, 3}}};
  return all;
}

/// Variables alone, in turn on two ranks.
Graph graph_of(const std::vector<Variable>& variables) {
  Graph graph;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    graph.place_next({int(i % 2)});
    graph.variable(variables[i].name, variables[i].dtype, variables[i].shape);
  }
  return graph;
}

/// Saves versions 1 and 2, in which every byte is the version.
void save_two(const fs::path& folder) {
  run_on(2, [&](World& world) {
    Executor executor(world, graph_of(usual()), Kernels());
    VariableCheckpoints saved(world, executor, {.folder = folder, .every = 1});
    for (int version = 1; version <= 2; ++version) {
      executor.run().value();
      const Tensor variable = executor.variable(world.rank() == 0 ? "a" : "b");
      std::memset(variable.data(), version, variable.bytes());
      saved.step_ended().or_throw();
    }
    world.leave().or_throw();
  });
}

/// The results of two ranks that go on with these variables.
struct Restored {
  std::vector<ErrorDetail> errors{2};
  std::vector<std::uint64_t> steps{0, 0};
  std::vector<int> bytes{-1, -1};  ///< the first of each rank's variable
};

Restored restore(const fs::path& folder, const std::vector<Variable>& variables) {
  Restored result;
  run_on(2, [&](World& world) {
    const auto rank = std::size_t(world.rank());
    Executor executor(world, graph_of(variables), Kernels());
    result.errors[rank] = thrown_by([&] {
      const VariableCheckpoints saved(world, executor, {.folder = folder});
      result.steps[rank] = saved.restored();
      result.bytes[rank] = int(*executor.variable(variables[rank].name).data());
    });
    world.leave().or_throw();
  });
  return result;
}

const char* const kVersion2 = "graph/00000000000000000002";

TEST(VariablesOfAnotherGraph, AreRefusedWithTheFileAndTheVariable) {
  const TempFolder folder;
  save_two(folder.path());
  struct Other {
    std::vector<Variable> variables;
    const char* words;
  };
  const std::vector<Other> others{
      {{{"a", DType::f32, {2000}}, {"c", DType::i64, {2, 3}}}, "variable \"c\" is missing"},
      {{{"a", DType::f64, {2000}}, usual()[1]},
       "variable \"a\" is f32[2000], in the graph f64[2000]"},
      {{{"a", DType::f32, {1999}}, usual()[1]},
       "variable \"a\" is f32[2000], in the graph f32[1999]"},
      {{usual()[0], usual()[1], {"c", DType::u8, {1}}}, "variable \"c\" is missing"}};
  for (const Other& other : others)
    for (const ErrorDetail& error : restore(folder.path(), other.variables).errors)
      EXPECT_TRUE(tells(error, Code::mismatch,
                        {kVersion2, "manifest.json", "another graph's", other.words}));
  EXPECT_EQ(restore(folder.path(), usual()).steps, (std::vector<std::uint64_t>{2, 2}));
  run_on(2, [&](World& world) {
    int number = 0;
    for (const Other& other : others) {
      Executor executor(world, graph_of(other.variables), Kernels(),
                        {.name = std::to_string(number++)});
      const ErrorDetail error = thrown_by([&] { load_variables(world, executor, folder.path()); });
      if (error.code != Code::ok)
        EXPECT_TRUE(tells(error, Code::mismatch, {kVersion2, "manifest.json", "variable '"}));
      else
        EXPECT_NE(world.rank(), &other == &others[0] ? 1 : 0)
            << "the other rank's variable is amiss";
    }
    world.leave().or_throw();
  });
}

void flip(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
  const char byte = char(stream.peek() ^ 1);
  stream.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  stream.put(byte);
}

struct Damage {
  const char* what;
  std::function<void(const fs::path& version)> act;
};

const Damage kFlippedBit{"a flipped bit", [](const fs::path& at) {
                           flip(at / "shard-0000-of-0002.safetensors", -4000);
                         }};
const std::vector<Damage> kTorn{
    {"a torn file",
     [](const fs::path& at) {
       const fs::path file = at / "shard-0001-of-0002.safetensors";
       fs::resize_file(file, fs::file_size(file) - 1);
     }},
    {"a missing file",
     [](const fs::path& at) { fs::remove(at / "shard-0001-of-0002.safetensors"); }},
    {"no manifest", [](const fs::path& at) { fs::remove(at / "manifest.json"); }},
    {"a flipped bit of the manifest", [](const fs::path& at) { flip(at / "manifest.json", 40); }}};

TEST(DamagedVariables, ArePassedOverForTheCheckpointBefore) {
  std::vector<Damage> damages = kTorn;
  damages.push_back(kFlippedBit);
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    const TempFolder folder;
    save_two(folder.path());
    damage.act(folder.path() / kVersion2);
    const Restored older = restore(folder.path(), usual());
    EXPECT_EQ(older.errors[0].code, Code::ok) << older.errors[0].text();
    EXPECT_EQ(older.steps, (std::vector<std::uint64_t>{1, 1})) << "on all ranks";
    EXPECT_EQ(older.bytes, (std::vector<int>{1, 1}));
  }
}

TEST(DamagedVariables, AreNotLoadedIfTheyAreAskedFor) {
  for (const Damage& damage : kTorn) {
    SCOPED_TRACE(damage.what);
    const TempFolder folder;
    save_two(folder.path());
    damage.act(folder.path() / kVersion2);
    run_on(2, [&](World& world) {
      Executor executor(world, graph_of(usual()), Kernels());
      EXPECT_TRUE(
          tells(thrown_by([&] { load_variables(world, executor, folder.path(), "graph", 2); }),
                Code::mismatch, {kVersion2}));
      world.leave().or_throw();
    });
  }
}

TEST(DamagedVariables, AreNamedWithTheFile) {
  const TempFolder folder;
  save_two(folder.path());
  kFlippedBit.act(folder.path() / kVersion2);
  run_on(2, [&](World& world) {
    Executor executor(world, graph_of(usual()), Kernels());
    const ErrorDetail error = thrown_by([&] { load_variables(world, executor, folder.path()); });
    if (world.rank() == 0)
      EXPECT_TRUE(tells(error, Code::mismatch,
                        {"variable 'a'", "shard-0000-of-0002.safetensors", "do not match"}));
    else
      EXPECT_EQ(error.code, Code::ok) << error.text();
    world.leave().or_throw();
  });
}

TEST(DamagedVariables, OfNoFolderOrATableAreRefused) {
  const TempFolder folder;
  run_on(1, [&](World& world) {
    ParameterServer server(world);
    TableOptions options;
    options.checkpoint = {.folder = folder.path(), .every = 1};
    {
      Table table = server.table("graph", {{"a", {3}}}, options);
      table.initialize().or_throw();
      table.push_pull().or_throw();
    }
    Graph graph;
    graph.place_next({0});
    graph.variable("a", DType::f32, {3});
    Executor executor(world, graph, Kernels());
    const auto load = [&](const char* name, std::optional<std::uint64_t> version = {}) {
      return thrown_by([&] { load_variables(world, executor, folder.path(), name, version); });
    };
    EXPECT_TRUE(tells(load("graph"), Code::mismatch, {"it is a table's"}));
    EXPECT_TRUE(tells(load("graph", 7), Code::mismatch, {"there is no version 7"}));
    EXPECT_TRUE(tells(load("none"), Code::mismatch, {"none", "it is not there"}));
    EXPECT_TRUE(
        tells(thrown_by([&] { VariableCheckpoints(world, executor, {.folder = folder.path()}); }),
              Code::mismatch, {"it is a table's"}));
  });
}

TEST(DamagedVariables, AreNotSavedInFoldersThatRanksDontShare) {
  const TempFolder folder;
  run_on(2, [&](World& world) {
    Executor executor(world, graph_of(usual()), Kernels());
    const auto begin = [&](const fs::path& place, const char* name) {
      return thrown_by(
          [&] { VariableCheckpoints(world, executor, {.folder = place, .every = 1}, name); });
    };
    const fs::path own = folder.path() / std::to_string(world.rank());
    const ErrorDetail error = begin(own, "graph");
    if (world.rank() == 1)
      EXPECT_TRUE(tells(error, Code::mismatch, {own.c_str(), "another folder"}));
    else
      EXPECT_TRUE(tells(error, Code::system, {"rank 1 can't use the checkpoints"}));
    const ErrorDetail again = begin(folder.path() / "one", "shared");
    EXPECT_EQ(again.code, Code::ok) << again.text();
    world.leave().or_throw();
  });
  EXPECT_TRUE(fs::is_empty(folder.path() / "0" / "graph"));
  EXPECT_TRUE(fs::is_empty(folder.path() / "one" / "shared"));
}

TEST(DamagedVariables, HaveNoReservedNameAndAreAskedForAlike) {
  run_on(2, [](World& world) {
    Graph graph;
    graph.place_next({0});
    graph.variable("__metadata__", DType::f32, {3});
    Executor executor(world, graph, Kernels());
    EXPECT_TRUE(tells(thrown_by([&] { VariableCheckpoints(world, executor, {}); }),
                      Code::bad_argument, {"__metadata__"}));
    Executor none(world, Graph(), Kernels(), {.name = "none"});
    EXPECT_TRUE(tells(thrown_by([&] { VariableCheckpoints(world, none, {}); }), Code::bad_argument,
                      {"no variables"}));
    Executor usual_one(world, graph_of(usual()), Kernels(), {.name = "usual"});
    const CheckpointOptions every{.folder = "/nowhere", .every = std::uint64_t(world.rank() + 1)};
    EXPECT_TRUE(tells(thrown_by([&] { VariableCheckpoints(world, usual_one, every); }),
                      Code::mismatch, {"checkpoint every 1", "checkpoint every 2"}));
  });
}

}  // namespace
}  // namespace weft::pslib
