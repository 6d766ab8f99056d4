// A sparse table continues from its checkpoint as if the job had never ended, on any number of
// servers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "pslib/checkpoint/checkpoint.hpp"
#include "tests/threads/pslib/sparse_history.hpp"
#include "tests/threads/pslib/sparse_job.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/pslib/checkpoint_folder.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
using pslib::Consistency;
using pslib::Optimizer;
using pslib::SparseOptions;
using pslib::SparseTable;

constexpr int kWorkers = 2;

/// Every worker sees the rows that the history expects, up to step `end`. Returns the version that
/// the job started from. The last `servers` ranks only serve; 0: the workers serve too.
std::uint64_t replay(const History& history, const SparseOptions& options, int servers,
                     std::size_t end) {
  std::uint64_t first = 0;
  run_sparse(kWorkers, servers, options, [&](World& world, SparseTable& table) {
    if (world.rank() == 0) first = table.version();
    history.replay(static_cast<std::size_t>(world.rank()), table, end);
  });
  return first;
}

SparseOptions saved(SparseOptions options, const fs::path& folder, std::uint64_t every) {
  options.checkpoint = {.folder = folder.string(), .every = every};
  return options;
}

TEST(SparseCheckpoints, GoOnBitForBitOnAnyNumberOfServers) {
  for (unsigned seed = 100; seed < 106; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TempFolder folder;
    const History history(seed, kWorkers);
    const SparseOptions options = saved(history.options(), folder.path(), 3);
    EXPECT_EQ(replay(history, options, 4, 5), 0U);
    EXPECT_EQ(replay(history, options, 2, 8), 3U);
    EXPECT_EQ(replay(history, options, 0, 9), 6U);
    EXPECT_EQ(replay(history, options, 3, history.steps()), 6U);
  }
}

// Files hold f32, with every wire type of the job that wrote them.
TEST(SparseCheckpoints, GoOnBitForBitWithAnotherWireType) {
  const std::vector<DType> wires{DType::f32, DType::bf16, DType::f16};
  for (unsigned seed = 300; seed < 304; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TempFolder folder;
    const History history(seed, kWorkers, wires);
    SparseOptions options = saved(history.options(), folder.path(), History::kTurn);
    for (std::size_t first = 0; first < history.steps(); first += History::kTurn) {
      options.wire = history.wire_of(first);
      const std::size_t end = std::min(first + History::kTurn + 1, history.steps());
      EXPECT_EQ(replay(history, options, static_cast<int>(first % 4), end), first);
    }
  }
}

// With one worker the order of pushes is fixed.
TEST(SparseCheckpoints, AreMadeOfTablesOutOfStepToo) {
  const TempFolder folder;
  const SparseOptions options = saved(plain(Consistency::async()), folder.path(), 2);
  const Ids ids{1, 2, 3, 1ULL << 60};
  const Floats ones(ids.size() * 4, -1.0F);
  const auto push_to = [&](std::uint64_t version, int servers) {
    std::uint64_t first = 0;
    run_sparse(1, servers, options, [&](World&, SparseTable& table) {
      first = table.version();
      Floats rows(ones.size());
      table.lookup(ids, rows).or_throw();
      EXPECT_EQ(rows, Floats(rows.size(), static_cast<float>(first)));
      while (table.version() < version) table.push_lookup(ids, ones, ids, rows).or_throw();
      EXPECT_EQ(rows, Floats(rows.size(), static_cast<float>(version)));
    });
    return first;
  };
  EXPECT_EQ(push_to(5, 3), 0U);
  EXPECT_EQ(push_to(7, 1), 4U);
  EXPECT_EQ(push_to(8, 2), 6U);
}

TEST(SparseCheckpoints, PassOverADamagedOne) {
  const TempFolder folder;
  const History history(7, kWorkers);
  const SparseOptions options = saved(history.options(), folder.path(), 3);
  EXPECT_EQ(replay(history, options, 2, 8), 0U);
  fs::resize_file(
      folder.path() / "rows" / "00000000000000000006" / "shard-0001-of-0002.safetensors", 100);
  EXPECT_EQ(replay(history, options, 2, 8), 3U);
  EXPECT_EQ(replay(history, options, 2, 8), 6U) << "it was written anew";
}

// A reader does not rely on a file's length: a file that is cut off anywhere is refused, and the
// error names the place.
TEST(SparseCheckpoints, AreRefusedWhereTheyAreCutOff) {
  const TempFolder folder;
  const SparseOptions options = saved(plain(Consistency::bsp()), folder.path(), 1);
  Ids ids(3000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i * i;
  run_sparse(1, 2, options, [&](World&, SparseTable& table) {
    for (int step = 0; step < 2; ++step) table.push(ids, Floats(ids.size() * 4, -1.0F)).or_throw();
    table.flush().or_throw();
  });
  const fs::path rows = folder.path() / "rows";
  const auto newest = [&](std::string& refusal) {
    const auto found = pslib::newest_checkpoint(
        folder_at(rows), [&](std::uint64_t, const Error& why, bool) { refusal += why.what(); });
    return found ? found->manifest().version : 0;
  };
  std::string refusal;
  ASSERT_EQ(newest(refusal), 2U) << refusal;
  for (const auto& entry : fs::directory_iterator(version_folder(rows, 2))) {
    const std::string name = entry.path().filename().string();
    const std::uint64_t size = entry.file_size();
    const fs::path whole = folder.path() / "whole";
    fs::copy_file(entry.path(), whole, fs::copy_options::overwrite_existing);
    for (std::uint64_t at = 0; at < size; at += at < 16 ? 1 : 512) {
      SCOPED_TRACE(name + " cut off at " + std::to_string(at));
      fs::resize_file(entry.path(), at);
      refusal.clear();
      EXPECT_EQ(newest(refusal), 1U);
      EXPECT_TRUE(contains(refusal, name + ", byte ")) << refusal;
      fs::copy_file(whole, entry.path(), fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_EQ(newest(refusal), 2U);
}

TEST(SparseCheckpoints, AreRefusedToAnotherTable) {
  const TempFolder folder;
  const SparseOptions options = saved(plain(Consistency::bsp()), folder.path(), 1);
  run_sparse(1, 1, options, [&](World&, SparseTable& table) {
    table.push(Ids{1}, Floats(4)).or_throw();
    table.flush().or_throw();
  });
  const auto refusal = [&](auto change) {
    SparseOptions changed = options;
    change(changed);
    std::string text;
    run_on(1, [&](World& world) {
      pslib::ParameterServer server(world);
      const auto detail = thrown_by([&] { (void)server.sparse_table("rows", changed); });
      EXPECT_EQ(detail.code, Code::mismatch) << detail.text();
      text = detail.text();
    });
    return text;
  };
  const auto other_dim = refusal([](SparseOptions& o) { o.dim = 5; });
  EXPECT_TRUE(contains(other_dim, "it has rows of 4 elements, the table rows of 5")) << other_dim;
  EXPECT_TRUE(contains(refusal([](SparseOptions& o) { o.seed = 1; }), "seed 0"));
  EXPECT_TRUE(contains(refusal([](SparseOptions& o) { o.admit_after = 2; }), "admit_after 0"));
  EXPECT_TRUE(contains(refusal([](SparseOptions& o) { o.optimizer = Optimizer::adam(0.1F); }),
                       "sgd with 0 states"));
}

}  // namespace
}  // namespace weft::tests
